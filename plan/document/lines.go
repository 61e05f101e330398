package document

import (
	"bytes"
	"slices"
	"sync"
	"unicode/utf8"
)

// lines is a text whose bytes are found by line and column, and the other way round.
type lines struct {
	file string
	src  []byte
	// starts holds the offset of each line.
	starts []int
	// mu guards what is noted when it is first needed.
	mu sync.Mutex
	// last is where offsetOf ended: many positions may be on one long line.
	last       Pos
	lastOffset int
}

// newLines notes where each line starts. A line ends where YAML 1.1 says so: at LF,
// CR LF and CR, but also at U+0085, U+2028 and U+2029, for the nodes' positions
// count them. A byte order mark is left out.
func newLines(file string, src []byte) *lines {
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	starts := append(make([]int, 0, bytes.Count(src, []byte{'\n'})+1), 0)
	for i, c := range src {
		rest := src[i:]
		switch {
		case c == '\n',
			c == '\r' && !bytes.HasPrefix(rest, []byte("\r\n")),
			c == 0x85 && bytes.HasSuffix(src[:i+1], []byte("\u0085")),
			c == 0xa8 && bytes.HasSuffix(src[:i+1], []byte("\u2028")),
			c == 0xa9 && bytes.HasSuffix(src[:i+1], []byte("\u2029")):
			starts = append(starts, i+1)
		}
	}
	return &lines{file: file, src: src, starts: starts}
}

// line returns line n, counted from 1, with its line break.
func (l *lines) line(n int) []byte {
	if n < 1 || n > len(l.starts) {
		return nil
	}
	end := len(l.src)
	if n < len(l.starts) {
		end = l.starts[n]
	}
	return l.src[l.starts[n-1]:end]
}

// trimBreak cuts off the line break.
func trimBreak(line []byte) []byte { return bytes.TrimRight(line, "\r\n\u0085\u2028\u2029") }

// posAt returns the position of the byte at an offset.
func (l *lines) posAt(offset int) Pos {
	line, _ := slices.BinarySearch(l.starts, offset+1) // the first that starts behind it
	return Pos{l.file, line, utf8.RuneCount(l.src[l.starts[line-1]:offset]) + 1}
}

// offsetOf returns the byte at a position.
func (l *lines) offsetOf(p Pos) int {
	if p.Line < 1 || p.Line > len(l.starts) {
		return len(l.src)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at, col := l.starts[p.Line-1], 1
	if l.last.Line == p.Line && l.last.Col <= p.Col {
		at, col = l.lastOffset, l.last.Col
	}
	for ; col < p.Col && at < len(l.src) && l.src[at] != '\n'; col++ {
		_, n := utf8.DecodeRune(l.src[at:])
		at += n
	}
	l.last, l.lastOffset = Pos{Line: p.Line, Col: col}, at
	return at
}
