package style

import (
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
)

// Line is a line in the making. What is longer than its width is cut, and ends in
// an ellipsis. Texts must be without newlines and control characters.
type Line struct {
	theme Theme
	b     strings.Builder
	width int
	used  int
}

// Line begins a line of at most width cells.
func (t Theme) Line(width int) *Line { return &Line{theme: t, width: max(width, 0)} }

// Put writes s, or as much as there is room for.
func (l *Line) Put(role Role, s string) *Line {
	room := l.width - l.used
	if room <= 0 || s == "" {
		return l
	}
	s = l.theme.Cut(s, room)
	l.used += words.Width(s)
	l.b.WriteString(l.theme.Paint(role, s))
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
func (l *Line) Cell(role Role, s string, width int) *Line {
	end := l.used + width
	return l.Put(role, l.theme.Cut(s, width)).To(end + 1)
}

// Number writes s at the right end of width cells, and a space after them.
func (l *Line) Number(role Role, s string, width int) *Line {
	end := l.used + width
	return l.To(end-words.Width(s)).Put(role, s).To(end + 1)
}

// Used returns how many cells were written.
func (l *Line) Used() int { return l.used }

// Room returns how many cells are left.
func (l *Line) Room() int { return l.width - l.used }

// String returns the line, without spaces at its end.
func (l *Line) String() string { return strings.TrimRight(l.b.String(), " ") }
