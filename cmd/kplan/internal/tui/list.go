package tui

// list is what the user did to a list of items of several lines: it is kept by
// the items' keys, so that filters and news do not move it.
type list struct {
	cursor string
	top    int  // first line shown
	follow bool // the cursor and the lines shown follow what happens
	open   map[string]bool
}

// item is a line of a list, and those below it when it is open.
type item struct {
	key  string
	head func(selected bool) string
	more []string
}

func (i item) lines() int { return 1 + len(i.more) }

// place is where a list stands: which item has the cursor, on which line that
// begins, which line is the first shown, and how many there are.
type place struct{ at, start, top, total int }

// place finds where the list stands in a window of so many lines; focus is the
// item that is followed.
func (l *list) place(items []item, height int, focus string) place {
	key := l.cursor
	if l.follow {
		key = focus
	}
	var p place
	for i, it := range items {
		if it.key == key {
			p.at, p.start = i, p.total
		}
		p.total += it.lines()
	}
	most := max(p.total-height, 0)
	p.top = min(max(l.top, 0), most)
	if l.follow && len(items) > 0 {
		end := p.start + items[p.at].lines()
		p.top = max(p.start-height/3, end-height, 0)
		p.top = min(p.top, p.start, most)
	}
	return p
}

// to puts the cursor on an item and shows it.
func (l *list) to(items []item, height int, p place, at int) {
	if len(items) == 0 {
		return
	}
	at = min(max(at, 0), len(items)-1)
	start := 0
	for _, it := range items[:at] {
		start += it.lines()
	}
	end := start + items[at].lines()
	l.cursor, l.follow = items[at].key, false
	l.top = p.top
	if end > l.top+height {
		l.top = end - height
	}
	l.top = min(l.top, start)
}

// by moves the lines shown, and not the cursor.
func (l *list) by(items []item, p place, lines int) {
	if len(items) > 0 {
		l.cursor = items[p.at].key
	}
	l.follow = false
	l.top = max(p.top+lines, 0)
}

// draw gives the lines of the window.
func (p place) draw(items []item, height int) []string {
	lines := make([]string, 0, height)
	n := 0
	for i, it := range items {
		if n+it.lines() > p.top && n < p.top+height {
			if n >= p.top {
				lines = append(lines, it.head(i == p.at))
			}
			for j, text := range it.more {
				if at := n + 1 + j; at >= p.top && at < p.top+height {
					lines = append(lines, text)
				}
			}
		}
		n += it.lines()
	}
	return lines
}

// hit is the item on a line of the window, or -1.
func (p place) hit(items []item, line int) int {
	n := 0
	for i, it := range items {
		if n += it.lines(); p.top+line < n {
			return i
		}
	}
	return -1
}
