package tui

import (
	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
)

// pane is what the body of the display shows: one of the views, or the help.
type pane interface {
	// draw returns the lines that are shown, at most height of them.
	draw(height int) []string
	// scroll moves the lines shown, and where there is a cursor that.
	scroll(m motion, height int)
	// where returns which lines are shown.
	where() *position
}

// position says which part of a pane is shown.
type position struct {
	top    int
	follow bool // what is shown follows what happens
}

func (p *position) where() *position { return p }

// motion is how far a key or the mouse moves; by is negative for up.
type motion struct {
	unit unit
	by   int
}

type unit int

const (
	byRow unit = iota
	byPage
	toEnd
	byWheel // by lines, without the cursor
)

// list is a pane of items, each of which can be opened. What the user did to it is
// kept by the items' keys, so that filters and news do not move it.
type list struct {
	*state
	position
	source source
	empty  string // what is said when there are no items
	cursor string
	open   map[string]bool // what the user opened or closed
}

// source has what a list shows.
type source interface {
	items() []item
	// focus returns the key of the item that is shown while the list follows. It
	// depends on how things stand alone, and not on what was shown before.
	focus() string
}

// item is a line of a list, and those below it when it is open.
type item struct {
	key  string
	head func(selected bool) string
	more []string
}

func (i item) lines() int { return 1 + len(i.more) }

func newList(s *state, empty string) list {
	return list{state: s, position: position{follow: true}, empty: empty, open: map[string]bool{}}
}

// current returns the key of the item under the cursor.
func (l *list) current() string {
	if l.follow {
		return l.source.focus()
	}
	return l.cursor
}

// selected returns the step under the cursor, in a list of steps; nil when there is
// none.
func (l *list) selected() *timeline.Step { return l.step(l.current()) }

func (l *list) draw(height int) []string {
	w := l.window(height)
	switch {
	case len(w.items) > 0:
		return w.draw()
	case l.filter.text != "":
		return l.message("nothing matches the filter " + l.filter.text)
	}
	return l.message(l.empty)
}

func (l *list) scroll(m motion, height int) {
	w := l.window(height)
	switch m.unit {
	case byRow:
		l.put(w, w.at+m.by)
	case toEnd:
		l.put(w, m.by*len(w.items))
	case byWheel:
		if len(w.items) > 0 {
			l.cursor = w.items[w.at].key
		}
		l.follow, l.top = false, max(w.top+m.by, 0)
	case byPage: // the lines move too, for what is open may be long
		was := w.top
		w.top = min(max(was+m.by*height, 0), w.most())
		at := len(w.items) - 1
		if m.by < 0 && was == 0 {
			at = 0
		} else if m.by < 0 || w.top != was {
			at = w.hit(height / 2)
		}
		l.put(w, at)
		l.top = w.top
	}
}

// click puts the cursor on the item on a line, and reports whether it was there.
func (l *list) click(line, height int) (again bool) {
	w := l.window(height)
	at := w.hit(line)
	if line < 0 || line >= height || at < 0 {
		return false
	}
	if at == w.at && !l.follow {
		return true
	}
	l.cursor, l.follow, l.top = w.items[at].key, false, w.top
	return false
}

func (l *list) toggle(height int) {
	w := l.window(height)
	if len(w.items) > 0 {
		l.open[w.items[w.at].key] = len(w.items[w.at].more) == 0
		w.items = l.source.items()
		l.put(w, w.at)
	}
}

func (l *list) put(w window, at int) {
	if len(w.items) == 0 {
		return
	}
	at = min(max(at, 0), len(w.items)-1)
	start := 0
	for _, it := range w.items[:at] {
		start += it.lines()
	}
	l.cursor, l.follow = w.items[at].key, false
	l.top = min(max(w.top, start+w.items[at].lines()-w.height), start)
}

// window is the part of a list that is shown.
type window struct {
	items  []item
	height int
	at     int // the item that has the cursor
	top    int // the first line shown
	total  int // how many lines there are
}

// window returns the part that a height has room for.
func (l *list) window(height int) window {
	w := window{items: l.source.items(), height: height}
	key, start := l.current(), 0
	for i, it := range w.items {
		if it.key == key {
			w.at, start = i, w.total
		}
		w.total += it.lines()
	}
	w.top = min(max(l.top, 0), w.most())
	if l.follow && len(w.items) > 0 {
		end := start + w.items[w.at].lines()
		w.top = min(max(start-height/3, end-height, 0), start, w.most())
	}
	return w
}

// most returns the highest top that leaves no line of the window empty.
func (w window) most() int { return max(w.total-w.height, 0) }

func (w window) draw() []string {
	lines := make([]string, 0, w.height)
	at := -w.top
	add := func(text func() string) {
		if at >= 0 && at < w.height {
			lines = append(lines, text())
		}
		at++
	}
	for i, it := range w.items {
		add(func() string { return it.head(i == w.at) })
		for _, text := range it.more {
			add(func() string { return text })
		}
	}
	return lines
}

// hit returns the item on a line of the window, or -1.
func (w window) hit(line int) int {
	n := 0
	for i, it := range w.items {
		if n += it.lines(); w.top+line < n {
			return i
		}
	}
	return -1
}

// head begins the line of an item with the sign of the one that keys work on, and
// returns how the item's name looks.
func (s *state) head(width int, selected, dim bool) (*style.Line, style.Role) {
	l := s.Line(width)
	switch {
	case selected:
		return l.Put(style.Accent, s.Sign("▌", ">")).To(2), style.Strong
	case dim:
		return l.To(2), style.Dim
	}
	return l.To(2), style.Plain
}
