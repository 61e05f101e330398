package fleetview

import "slices"

// rowOf is the index of the row that has a key, or -1.
func rowOf(rows []row, key string) int {
	return slices.IndexFunc(rows, func(r row) bool { return slices.Contains(r.keys, key) })
}

// place is where the cursor is among the rows: at the first row that can have it while there
// is none, or what had it is gone.
func (m *model) place(rows []row) (at, column int, was bool) {
	if at = rowOf(rows, m.cursor); at >= 0 {
		return at, slices.Index(rows[at].keys, m.cursor), true
	}
	at = slices.IndexFunc(rows, func(r row) bool { return len(r.keys) > 0 })
	return at, 0, false
}

// move moves the cursor by rows, and by clusters within and across rows.
func (m *model) move(down, right int) {
	rows := m.rows()
	at, column, was := m.place(rows)
	switch {
	case at < 0:
		return
	case !was && down*down <= 1: // it appears first
	case right != 0:
		at, column = beside(rows, at, column, right)
		m.column = column
	case down != 0:
		at = m.below(rows, at, down)
		column = min(m.column, len(rows[at].keys)-1)
	}
	m.cursor = rows[at].keys[column]
	if !was {
		m.column = 0
	}
	m.reveal(at, len(rows))
}

// below is the row that is so many rows further down, or the next one in that direction that
// can have the cursor.
func (m *model) below(rows []row, at, down int) int {
	to := min(max(at+down, 0), len(rows)-1)
	step := 1
	if down < 0 {
		step = -1
	}
	for i := to; i >= 0 && i < len(rows); i += step {
		if len(rows[i].keys) > 0 {
			return i
		}
	}
	for i := to; i >= 0 && i < len(rows); i -= step {
		if len(rows[i].keys) > 0 {
			return i
		}
	}
	return at
}

// beside is the place of the next key before or after one.
func beside(rows []row, at, column, right int) (toRow, toColumn int) {
	if c := column + right; c >= 0 && c < len(rows[at].keys) {
		return at, c
	}
	for i := at + right; i >= 0 && i < len(rows); i += right {
		if n := len(rows[i].keys); n > 0 {
			if right < 0 {
				return i, n - 1
			}
			return i, 0
		}
	}
	return at, column
}

// reveal scrolls so that a row is shown.
func (m *model) reveal(at, rows int) {
	height := m.bodyHeight()
	m.top = min(max(m.top, at-height+1, 0), at, max(rows-height, 0))
	if at < m.top {
		m.top = at
	}
}

// wheel scrolls by lines, and takes the cursor along where it would be out of sight.
func (m *model) wheel(lines int) {
	if m.member != nil {
		m.member.m.Wheel(lines)
		return
	}
	if m.help {
		m.helpTop = max(m.helpTop+lines, 0)
		return
	}
	rows, height := m.rows(), m.bodyHeight()
	at, _, _ := m.place(rows)
	if at < 0 {
		return
	}
	top := min(max(m.scrolled(rows, height)+lines, 0), max(len(rows)-height, 0))
	to := min(max(at, top), top+height-1, len(rows)-1)
	if at != to || m.cursor == "" {
		to = m.below(rows, to, 0)
		m.cursor = rows[to].keys[min(m.column, len(rows[to].keys)-1)]
	}
	m.top = top
}

// click puts the cursor on what is at a place of the screen; what has it already is opened.
func (m *model) click(x, y int) act {
	const header = 4
	switch {
	case m.member != nil:
		m.member.m.Click(x, y)
		return act{}
	case m.ask != nil, m.help, y < header, y >= header+m.bodyHeight():
		return act{}
	}
	rows := m.rows()
	at := m.scrolled(rows, m.bodyHeight()) + y - header
	if at >= len(rows) || len(rows[at].keys) == 0 {
		return act{}
	}
	column := 0
	if m.clusterOf(rows[at].keys[0]) != nil && !m.failed && m.filter == "" {
		if column = (x - indent) / 2; x < indent || column >= len(rows[at].keys) {
			return act{}
		}
	}
	if m.cursor == rows[at].keys[column] {
		return m.enter()
	}
	m.top = m.scrolled(rows, m.bodyHeight())
	m.cursor, m.column = rows[at].keys[column], column
	return act{}
}
