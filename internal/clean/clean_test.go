package clean_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/clean"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"plain text, ünïcödé ✔":                    "plain text, ünïcödé ✔",
		"two\nlines":                               "two\nlines",
		"tab\tand return\rover":                    "tab and return over",
		"dos\r\nline":                              "dos\nline",
		"\x1b[31;1mred\x1b[0m":                     "red",
		"\u009b31mred":                             "red",
		"\x1b]0;title\atext":                       "text",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link",
		"\x1bPq#0\x1b\\sixel":                      "sixel",
		"\u009dtitle\u009ctext":                    "text",
		"\x1b(Bcharset":                            "Bcharset",
		"unfinished \x1b[31":                       "unfinished 31",
		"unfinished \x1b]0;title":                  "unfinished 0;title",
		"lone \x1b":                                "lone ",
		"\x1bé":                                    "é",
		"bell\a null\x00 del\x7f":                  "bell null del",
		"right\u202eto left\u2066":                 "rightto left",
		"zero\u200bwidth\ufeff":                    "zerowidth",
		"no\xffutf8":                               "no\ufffdutf8",
	} {
		require.Equal(t, want, clean.Text(in), "%q", in)
	}
}

func FuzzTextLeavesNothingToObey(f *testing.F) {
	for _, s := range []string{"\x1b[31mred", "\x1b]0;t\a", "\u009b1m", "a\u202eb", "\xff\x1b", "\x1b\x1b[[m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c := clean.Text(s)
		require.True(t, utf8.ValidString(c))
		require.Equal(t, -1, strings.IndexFunc(c, clean.Perilous), "%q", c)
		require.Equal(t, c, clean.Text(c), "cleaning twice changes nothing")
	})
}

func TestLine(t *testing.T) {
	require.Equal(t, "a  [31mred b", clean.Line("a \x1b[31mred\nb\u200b"))
	long := make([]byte, 1000)
	for i := range long {
		long[i] = 'x'
	}
	require.Len(t, []rune(clean.Line(string(long))), 301)
}
