package pen

import (
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Line is a line in the making. What is longer than its width is cut, and ends in
// an ellipsis. Texts must be without newlines and control characters.
type Line struct {
	p     *Pen
	b     strings.Builder
	width int
	used  int
}

// Line begins a line of at most width cells.
func (p *Pen) Line(width int) *Line { return &Line{p: p, width: max(width, 0)} }

// Put writes s, or as much as there is room for.
func (l *Line) Put(ink Ink, s string) *Line {
	room := l.width - l.used
	if room <= 0 || s == "" {
		return l
	}
	s = l.p.Cut(s, room)
	l.used += Width(s)
	l.b.WriteString(l.p.Paint(ink, s))
	return l
}

// To fills up with spaces, so that what follows begins in a column.
func (l *Line) To(column int) *Line {
	if n := min(column, l.width) - l.used; n > 0 {
		l.b.WriteString(strings.Repeat(" ", n))
		l.used += n
	}
	return l
}

// Cell writes s into width cells, and a space after them.
func (l *Line) Cell(ink Ink, s string, width int) *Line {
	end := l.used + width
	return l.Put(ink, l.p.Cut(s, width)).To(end + 1)
}

// Number writes s at the right end of width cells, and a space after them.
func (l *Line) Number(ink Ink, s string, width int) *Line {
	end := l.used + width
	return l.To(end-Width(s)).Put(ink, s).To(end + 1)
}

// Used is how many cells were written, and Room how many are left.
func (l *Line) Used() int { return l.used }

// Room is how many cells are left.
func (l *Line) Room() int { return l.width - l.used }

// String is the line, without spaces at its end.
func (l *Line) String() string { return strings.TrimRight(l.b.String(), " ") }

// Width is how many cells s takes.
func Width(s string) int {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return ansi.StringWidth(s)
		}
	}
	return len(s)
}

// Cut cuts s to width cells; what was cut ends in an ellipsis.
func (p *Pen) Cut(s string, width int) string {
	switch {
	case Width(s) <= width:
		return s
	case width <= 0:
		return ""
	}
	more := p.Sign("…", "~")
	return ansi.Truncate(s, width, more)
}

// Wrap breaks s into lines of at most width cells, at spaces where there are any.
// Lines of s itself stay lines.
func Wrap(s string, width int) []string {
	width = max(width, 8)
	var lines []string
	for text := range strings.SplitSeq(strings.TrimRight(s, "\n "), "\n") {
		if Width(text) <= width {
			lines = append(lines, text)
			continue
		}
		for line := range strings.SplitSeq(ansi.Wrap(text, width, "/,"), "\n") {
			lines = append(lines, strings.TrimRight(line, " "))
		}
	}
	return lines
}

// Bar draws how much is done: width cells, filled in proportion.
func (p *Pen) Bar(done, total, width int) (full, empty string) {
	if width <= 0 || total <= 0 {
		return "", ""
	}
	n := min(max(done*width/total, 0), width)
	return strings.Repeat(p.Sign("█", "#"), n), strings.Repeat(p.Sign("░", "."), width-n)
}

// Flat puts a text on one line.
func Flat(s string) string {
	if strings.IndexByte(s, '\n') < 0 && utf8.ValidString(s) {
		return s
	}
	return strings.Join(strings.Fields(s), " ")
}
