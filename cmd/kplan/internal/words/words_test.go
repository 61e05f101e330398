package words_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
)

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
		require.Equal(t, want, words.Brief(d), d.String())
	}
}

func TestExact(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 50 * time.Millisecond: "50ms", 1500 * time.Millisecond: "1.5s", 30 * time.Second: "30s", time.Minute: "1m", 90 * time.Second: "1m30s",
		10 * time.Minute: "10m", time.Hour: "1h", 90 * time.Minute: "1h30m", 2*time.Hour + 5*time.Minute: "2h5m",
	} {
		require.Equal(t, want, words.Exact(d))
	}
}

func TestJoin(t *testing.T) {
	require.Equal(t, "a: b", words.Join(": ", "", "a", "", "b"))
	require.Equal(t, "on b", words.Join("; ", words.Prefixed("needs ", ""), words.Prefixed("on ", "b")))
	require.Equal(t, "a, b and 2 more", words.List([]string{"a", "b", "c", "d"}, 2))
	require.Equal(t, "a, b", words.List([]string{"a", "b"}, 2))
	require.Equal(t, "1 step, 0 steps", words.Count(1, "step")+", "+words.Count(0, "step"))
}

func TestLine(t *testing.T) {
	require.Equal(t, "one two three", words.Line("one\n two \x1b[31mthree\n"))
}

func TestCut(t *testing.T) {
	require.Equal(t, "ab", words.Cut("ab", 2, "…"))
	require.Equal(t, "a…", words.Cut("abc", 2, "…"))
	require.Equal(t, "漢…", words.Cut("漢字漢", 4, "…"), "a wide character takes two cells")
	require.Empty(t, words.Cut("abc", 0, "…"))
}

func TestWrap(t *testing.T) {
	require.Equal(t, []string{"one two", "three"}, words.Wrap("one two three", 9))
	require.Equal(t, []string{"one", "", "two"}, words.Wrap("one\n\ntwo\n", 9))
	for _, line := range words.Wrap(strings.Repeat("x", 100)+" "+strings.Repeat("漢", 30), 20) {
		require.LessOrEqual(t, words.Width(line), 20)
	}
}

func TestFill(t *testing.T) {
	require.Equal(t, "  one two\n  three\n  ever-so-long", words.Fill("one two\nthree ever-so-long", 9, "  "))
	require.Equal(t, "one two", words.Fill("one\n two", 0, ""))
}

func TestIndent(t *testing.T) {
	require.Equal(t, "one\n  two", words.Indent("one\ntwo\n", "  "))
}
