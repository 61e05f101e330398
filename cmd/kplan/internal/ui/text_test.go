package ui

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestClean(t *testing.T) {
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
		require.Equal(t, want, Clean(in), "%q", in)
	}
}

func FuzzCleanLeavesNothingToObey(f *testing.F) {
	for _, s := range []string{"\x1b[31mred", "\x1b]0;t\a", "\u009b1m", "a\u202eb", "\xff\x1b", "\x1b\x1b[[m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c := Clean(s)
		require.True(t, utf8.ValidString(c))
		require.Equal(t, -1, strings.IndexFunc(c, perilous), "%q", c)
		require.Equal(t, c, Clean(c), "cleaning twice changes nothing")
	})
}

func FuzzInertJSONMeansTheSame(f *testing.F) {
	f.Add("\u009b31m \u202e \x7f \U000e0041 \u2028 <&> \"\\")
	f.Fuzz(func(t *testing.T, s string) {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		require.NoError(t, enc.Encode(s))
		inert := InertJSON(b.Bytes())
		require.Equal(t, -1, bytes.IndexFunc(inert, perilous))
		var want, got string
		require.NoError(t, json.Unmarshal(b.Bytes(), &want))
		require.NoError(t, json.Unmarshal(inert, &got))
		require.Equal(t, want, got)
	})
}

func TestBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:                          "0ms",
		0:                                     "0ms",
		36 * time.Millisecond:                 "36ms",
		100 * time.Millisecond:                "0.1s",
		640 * time.Millisecond:                "0.6s",
		9949 * time.Millisecond:               "9.9s",
		9951 * time.Millisecond:               "10s",
		59*time.Second + 499*time.Millisecond: "59s",
		59*time.Second + 500*time.Millisecond: "1m00s",
		185 * time.Second:                     "3m05s",
		time.Hour + 2*time.Minute:             "1h02m",
		30 * time.Hour:                        "30h00m",
	} {
		require.Equal(t, want, brief(d), d.String())
	}
}

func TestProblem(t *testing.T) {
	var b bytes.Buffer
	Problem(&b, Options{}, "step \"a\": one\ntwo\x1b[2J\n", "do this\nor that")
	require.Equal(t, "error: step \"a\": one\n  two\nhint: do this\n  or that\n", b.String())
	b.Reset()
	Problem(&b, Options{Colour: true}, "x", "")
	require.Equal(t, "\x1b[31;1merror:\x1b[0m x\n", b.String())
}
