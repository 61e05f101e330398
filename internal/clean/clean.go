// Package clean takes out of a text what a terminal might obey or what hides how
// it reads: escape sequences, control characters, marks of text direction.
//
// It does not know what is secret.
package clean

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text gives s without what is perilous. Newlines stay; tabs and returns become
// spaces.
func Text(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r == utf8.RuneError || Perilous(r) }) < 0 {
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
		case Perilous(r):
		default:
			b.WriteRune(r) // RuneError for a byte that is no UTF-8
		}
		s = s[n:]
	}
	return b.String()
}

// Line makes a text of a cluster fit for one line: what is perilous becomes blanks,
// and more than 300 characters are cut.
func Line(s string) string {
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == '\n' || Perilous(r) {
			return ' '
		}
		return r
	}, s))
	const most = 300
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
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

// Perilous tells the characters that a terminal might obey or that hide how a text
// reads, newlines excepted.
func Perilous(r rune) bool { return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) }
