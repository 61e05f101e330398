package ui

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Clean takes out of s all that a terminal might obey or that hides what is
// written: escape sequences, control characters, marks of text direction.
// Newlines stay; tabs and returns become spaces. Every text that comes from a
// cluster, a chart or a registry goes through it.
func Clean(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r == utf8.RuneError || perilous(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == 0x1b || r >= 0x80 && r <= 0x9f:
			n = sequence(s, n)
		case r == '\r' && strings.HasPrefix(s[n:], "\n"):
		case r == '\t' || r == '\r':
			b.WriteByte(' ')
		case perilous(r):
		default:
			b.WriteRune(r) // RuneError for a byte that is no UTF-8
		}
		s = s[n:]
	}
	return b.String()
}

// sequence is the length of the escape sequence at the start of s, whose first
// character has n bytes. One that does not end is only as long as its start.
func sequence(s string, n int) int {
	intro, _ := utf8.DecodeRuneInString(s)
	if intro == 0x1b {
		if len(s) == n {
			return n
		}
		intro = rune(s[n]) + 0x40 // the same sequence in its one-character form
		if s[n] >= utf8.RuneSelf {
			return n
		}
		n++
	}
	rest := s[n:]
	switch intro {
	case 0x9b: // CSI: parameters up to a final character
		if i := strings.IndexFunc(rest, func(r rune) bool { return r >= 0x40 && r <= 0x7e }); i >= 0 {
			return n + i + 1
		}
	case 0x90, 0x98, 0x9d, 0x9e, 0x9f: // strings, e.g. a title or a link
		end := len(rest)
		for _, stop := range []string{"\a", "\x1b\\", "\u009c"} {
			if i := strings.Index(rest[:end], stop); i >= 0 {
				end = i + len(stop)
			}
		}
		if end < len(rest) || strings.HasSuffix(rest, "\a") || strings.HasSuffix(rest, "\x1b\\") || strings.HasSuffix(rest, "\u009c") {
			return n + end
		}
	}
	return n
}

// Problem writes an error and what to do about it, as every command does.
func Problem(w io.Writer, o Options, text, hint string) {
	fmt.Fprintf(w, "%s %s\n", o.paint("31;1", "error:"), indent(Clean(text), "  "))
	if hint != "" {
		fmt.Fprintf(w, "%s %s\n", o.paint("36", "hint:"), indent(Clean(hint), "  "))
	}
}

// paint puts s into the colour of an SGR code.
func (o Options) paint(code, s string) string {
	if !o.Colour || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// indent puts prefix before every line of s but the first.
func indent(s, prefix string) string {
	return strings.ReplaceAll(strings.TrimRightFunc(s, unicode.IsSpace), "\n", "\n"+prefix)
}

// brief writes a duration for people: 40ms, 6.2s, 42s, 3m05s, 1h02m.
func brief(d time.Duration) string {
	d = max(d, 0)
	switch s := int(d.Round(time.Second).Seconds()); {
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 9950*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	default:
		return fmt.Sprintf("%dh%02dm", s/3600, s%3600/60)
	}
}

// count writes a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
