package document

import (
	"bytes"
	"strings"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
)

// TextPos returns where a byte of the text at a path stands in the file. What the
// file has differs from the text: in how lines are folded and indented, in quotes
// that are doubled, in escapes. The expressions of the text, which are what faults
// are about, are found by their ${{ and followed from there.
func (s *Source) TextPos(at Path, text string, offset int) Pos {
	n, _ := s.Node(at)
	pos := s.ValuePos(at)
	if n == nil || n.Kind != yamlv3.ScalarNode {
		return pos
	}
	offset = min(offset, len(text))
	// The last ${{ at or before the offset; an expression begins three bytes on.
	from := strings.LastIndex(text[:min(offset+3, len(text))], "${{")
	if from < 0 {
		return pos
	}
	file := s.offsetOf(pos)
	for range strings.Count(text[:from], "${{") + 1 {
		next := bytes.Index(s.src[file:], []byte("${{"))
		if next < 0 {
			return pos
		}
		file += next + 3
	}
	return s.posAt(follow(s.src, file, text[min(from+3, len(text)):], offset-from-3, n.Style) - back(offset-from))
}

// PlainPos is textPos for a text that is an expression as a whole.
func (s *Source) PlainPos(at Path, text string, offset int) Pos {
	n, _ := s.Node(at)
	pos := s.ValuePos(at)
	if n == nil || n.Kind != yamlv3.ScalarNode || strings.Contains(n.Value, "${{") {
		return pos
	}
	start := s.offsetOf(pos)
	if n.Style&(yamlv3.SingleQuotedStyle|yamlv3.DoubleQuotedStyle) != 0 {
		start++
	}
	if n.Style&(yamlv3.LiteralStyle|yamlv3.FoldedStyle) != 0 {
		next := bytes.IndexByte(s.src[start:], '\n')
		if next < 0 {
			return pos
		}
		start += next
		start += blanksAt(string(s.src[start:min(len(s.src), start+4096)]))
	}
	return s.posAt(follow(s.src, start, text, offset, n.Style))
}

// back is how far before the end of ${{ an offset of less than three is.
func back(offset int) int { return max(0, 3-offset) }

// follow goes along a text of the file that starts at an offset, and along what it
// means, as far as steps bytes of the latter. It stops early where the two differ
// in a way that it does not know.
func follow(src []byte, file int, text string, steps int, style yamlv3.Style) int {
	for at := 0; at < steps && at < len(text) && file < len(src); {
		c, want := src[file], text[at]
		switch {
		case isBlank(c) && isBlank(want) && (c != want || c == '\n'):
			// A fold, or the end of a line and its indentation.
			at += blanksAt(text[at:])
			file += blanksAt(string(src[file:min(len(src), file+4096)]))
		case style&yamlv3.SingleQuotedStyle != 0 && c == '\'' && want == '\'':
			file, at = file+2, at+1
		case style&yamlv3.DoubleQuotedStyle != 0 && c == '\\':
			length, ok := escapeLen(src[file:])
			if !ok {
				return file
			}
			_, width := utf8.DecodeRuneInString(text[at:])
			file, at = file+length, at+width
		case c == want:
			file, at = file+1, at+1
		default:
			return file
		}
	}
	return min(file, len(src))
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func blanksAt(s string) int { return len(s) - len(strings.TrimLeft(s, " \t\r\n")) }

// escapeLen returns the length of an escape of a text in double quotes. An escaped
// line break stands for nothing, which is not followed.
func escapeLen(src []byte) (int, bool) {
	if len(src) < 2 {
		return 0, false
	}
	switch src[1] {
	case 'x':
		return 4, len(src) >= 4
	case 'u':
		return 6, len(src) >= 6
	case 'U':
		return 10, len(src) >= 10
	case '\n', '\r':
		return 0, false
	}
	return 2, true
}
