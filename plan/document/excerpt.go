package document

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// excerptWidth is how many characters of a line are shown.
const excerptWidth = 100

// excerpt returns the line of a position, cut around the column, and a caret under
// that column. It looks at the characters near the column only: a line may be as
// long as the file.
func (s *Source) excerpt(p Pos) string {
	line, at := s.redacted(p)
	before, after := lastRunes(line[:at], excerptWidth), firstRunes(line[at:], excerptWidth)
	if room := excerptWidth - len(before) - len(after); room < 0 {
		half := excerptWidth / 2
		keep := max(half, excerptWidth-len(after))
		before = before[max(0, len(before)-keep):]
		after = after[:min(len(after), excerptWidth-len(before))]
	}
	head, tail := "", ""
	if len(string(before)) < at {
		head = "…"
	}
	if len(string(after)) < len(line)-at {
		tail = "…"
	}
	caret := strings.Map(func(r rune) rune {
		if isWide(r) {
			return '\u3000' // as wide as the character above it
		}
		return ' '
	}, head+string(before)) + "^"
	return cleaned(head+string(before)+string(after)+tail) + "\n" + caret
}

// firstRunes returns at most n characters from the start of s.
func firstRunes(s []byte, n int) []rune {
	if len(s) > n*utf8.UTFMax {
		s = s[:n*utf8.UTFMax]
	}
	r := []rune(string(s))
	return r[:min(n, len(r))]
}

// lastRunes returns at most n characters from the end of s.
func lastRunes(s []byte, n int) []rune {
	if len(s) > n*utf8.UTFMax {
		s = s[len(s)-n*utf8.UTFMax:]
	}
	r := []rune(string(s))
	return r[max(0, len(r)-n):]
}

// isWide reports whether a character takes two columns of a terminal, roughly.
func isWide(r rune) bool {
	return r >= 0x1100 && unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana)
}
