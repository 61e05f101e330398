package pen

import (
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
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
	l.used += words.Width(s)
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
	return l.To(end-words.Width(s)).Put(ink, s).To(end + 1)
}

// Used is how many cells were written, and Room how many are left.
func (l *Line) Used() int { return l.used }

// Room is how many cells are left.
func (l *Line) Room() int { return l.width - l.used }

// String is the line, without spaces at its end.
func (l *Line) String() string { return strings.TrimRight(l.b.String(), " ") }

// Cut cuts s to width cells; what was cut ends in an ellipsis.
func (p *Pen) Cut(s string, width int) string { return words.Cut(s, width, p.Sign("…", "~")) }

// Bar draws how much is done: width cells, filled in proportion.
func (p *Pen) Bar(done, total, width int) (full, empty string) {
	if width <= 0 || total <= 0 {
		return "", ""
	}
	n := min(max(done*width/total, 0), width)
	return strings.Repeat(p.Sign("█", "#"), n), strings.Repeat(p.Sign("░", "."), width-n)
}
