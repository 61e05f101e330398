package tui

import (
	"slices"
	"unicode/utf8"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// Act is what a key asks of the program around the model.
type Act struct {
	Do Do
	// Order is for the run, with DoOrder.
	Order runner.Order
}

// Do says what to do.
type Do int

const (
	// DoNothing is all within the model.
	DoNothing Do = iota
	// DoLeave closes the display. A run that goes on does so.
	DoLeave
	// DoStop stops the run as a signal does: the second aborts it.
	DoStop
	// DoOrder hands an order to the run.
	DoOrder
	// DoRedraw draws the whole screen anew.
	DoRedraw
	// DoMouse takes the mouse, or leaves it to the terminal.
	DoMouse
)

// binding is what a key does, when, and how the help says that.
type binding struct {
	keys  []string
	short string // in the footer; "" is not there
	help  string
	when  func(*Model) bool // nil means always
	do    func(*Model) Act
}

func act(do Do) func(*Model) Act { return func(*Model) Act { return Act{Do: do} } }

func within(f func(*Model)) func(*Model) Act {
	return func(m *Model) Act { f(m); return Act{} }
}

// bindings are all keys, in the order in which the help tells of them; the first
// that fits is taken.
func bindings() []binding {
	return []binding{
		{[]string{"up", "k"}, "", "up", nil, within(func(m *Model) { m.move(-1) })},
		{[]string{"down", "j"}, "move", "down", nil, within(func(m *Model) { m.move(1) })},
		{[]string{"pgup", "b", "ctrl+b"}, "", "a page up", nil, within(func(m *Model) { m.page(-1) })},
		{[]string{"pgdown", " ", "ctrl+f"}, "", "a page down", nil, within(func(m *Model) { m.page(1) })},
		{[]string{"home", "g"}, "", "to the top", nil, within(func(m *Model) { m.end(-1) })},
		{[]string{"end", "G"}, "", "to the end", nil, within(func(m *Model) { m.end(1) })},
		{[]string{"enter", "o"}, "open", "open or close what the cursor is on", nil, within((*Model).toggle)},
		{[]string{"f"}, "follow", "follow what happens", (*Model).strayed, within((*Model).follow)},
		{[]string{"1", "2", "3", "4"}, "", "steps, timeline, webhooks, log of a step", nil, nil}, // see Press
		{[]string{"tab"}, "view", "the next view", nil, within(func(m *Model) { m.turn(1) })},
		{[]string{"shift+tab"}, "", "the view before", nil, within(func(m *Model) { m.turn(-1) })},
		{[]string{"[", "left", "h"}, "", "log of the step before", (*Model).onLog, within(func(m *Model) { m.neighbour(-1) })},
		{[]string{"]", "right", "l"}, "step", "log of the next step", (*Model).onLog, within(func(m *Model) { m.neighbour(1) })},
		{[]string{"/"}, "filter", "show only what has all words of a filter", nil, within(func(m *Model) { m.typing, m.help = true, false })},
		{[]string{"esc"}, "", "drop the filter, close this help", nil, within((*Model).escape)},
		{[]string{"p"}, "pause", "pause the display; the run goes on", (*Model).live, within((*Model).hold)},
		{[]string{"p"}, "pause", "pause, or go on playing", (*Model).replays, within((*Model).hold)},
		{[]string{"+"}, "faster", "play twice as fast", (*Model).replays, within(func(m *Model) { m.pace(2) })},
		{[]string{"-"}, "slower", "play half as fast", (*Model).replays, within(func(m *Model) { m.pace(0.5) })},
		{[]string{"r"}, "retry", "try a step that failed, or waits for its next attempt, again now", (*Model).orders, (*Model).retry},
		{[]string{"s"}, "skip", "skip the wait of a wait or webhook step, once you have confirmed it", (*Model).orders, (*Model).skip},
		{[]string{"e"}, "end run", "end a run that waits for orders", (*Model).lingers, (*Model).endRun},
		{[]string{"m"}, "", "take or leave the mouse, to select text with it", nil, act(DoMouse)},
		{[]string{"ctrl+l"}, "", "draw the screen anew", nil, act(DoRedraw)},
		{[]string{"?"}, "help", "this help", nil, within((*Model).toggleHelp)},
		{[]string{"ctrl+c"}, "stop", "stop the run: nothing new starts; pressed again, abort it at once. After its end, close the display", (*Model).live, (*Model).stop},
		{[]string{"q"}, "quit", "close the display; a run that goes on is told of line by line", nil, act(DoLeave)},
		{[]string{"ctrl+c"}, "", "", nil, act(DoLeave)},
	}
}

func (m *Model) live() bool    { return !m.Replay && !m.Ended() }
func (m *Model) replays() bool { return m.Replay && !m.Ended() }
func (m *Model) orders() bool  { return m.Orders && m.live() }
func (m *Model) lingers() bool { return m.orders() && m.run.Execution().Paused() }
func (m *Model) onLog() bool   { return m.view == viewLog }
func (m *Model) strayed() bool { return !m.lists[m.view].follow }

// Press takes a key, by the name that bubbletea gives it.
func (m *Model) Press(key string) Act {
	switch {
	case m.ask != nil:
		return m.answer(key)
	case m.typing && key != "ctrl+c":
		m.write(key)
		return Act{}
	case m.help && (key == "q" || key == "enter"):
		m.help = false
		return Act{}
	case key >= "1" && key <= "4" && len(key) == 1:
		m.show(view(key[0] - '1'))
		return Act{}
	}
	for _, b := range bindings() {
		if b.do == nil || !slices.Contains(b.keys, key) || b.when != nil && !b.when(m) {
			continue
		}
		if m.help && !b.inHelp() {
			m.help = false
			return Act{}
		}
		return b.do(m)
	}
	return Act{}
}

// inHelp tells whether a key does the same while the help is shown. Others only
// close that.
func (b binding) inHelp() bool {
	switch b.keys[0] {
	case "up", "down", "pgup", "pgdown", "home", "end", "?", "esc", "ctrl+c", "ctrl+l", "m":
		return true
	}
	return false
}

// Wheel scrolls by lines, without moving the cursor.
func (m *Model) Wheel(lines int) {
	switch {
	case m.help:
		m.scrollHelp(lines)
	case m.view == viewLog:
		m.scrollLog(lines)
	default:
		items, l := m.items(), &m.lists[m.view]
		l.by(items, l.place(items, m.rows(), m.focus()), lines)
	}
}

// Click puts the cursor on what is at a line of the screen; on what has it
// already, it opens or closes that.
func (m *Model) Click(x, y int) {
	line := y - m.headerHeight()
	if m.help || m.view == viewLog || m.ask != nil {
		return
	}
	if m.view == viewTime {
		line--
	}
	items, l := m.items(), &m.lists[m.view]
	p := l.place(items, m.rows(), m.focus())
	at := p.hit(items, line)
	if line < 0 || line >= m.rows() || at < 0 {
		return
	}
	if at == p.at && !l.follow {
		m.toggle()
		return
	}
	l.cursor, l.follow, l.top = items[at].key, false, p.top
}

func (m *Model) answer(key string) Act {
	q := m.ask
	switch key {
	case "y", "Y":
		m.ask = nil
		return q.yes
	case "n", "N", "esc", "q", "enter":
		m.ask = nil
	case "ctrl+c":
		m.ask = nil
		return m.Press(key)
	}
	return Act{}
}

// write takes a key of the filter.
func (m *Model) write(key string) {
	switch key {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace", "ctrl+h":
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	case "ctrl+u", "ctrl+w":
		m.filter = ""
	default:
		if utf8.RuneCountInString(key) == 1 {
			m.filter += words.Clean(key)
		}
	}
}

// Paste takes text that was pasted: it goes into the filter, and is never taken
// for keys.
func (m *Model) Paste(text string) {
	if m.typing {
		m.filter += words.Line(text)
	}
}

func (m *Model) escape() {
	if m.help {
		m.help = false
		return
	}
	m.filter = ""
}

func (m *Model) toggleHelp() { m.help, m.helpAt = !m.help, 0 }

// show turns to a view. Steps and timeline have one cursor, and the log shows
// the step that has it.
func (m *Model) show(v view) {
	m.help = false
	if v == m.view {
		return
	}
	from := m.view
	if from == viewSteps || from == viewTime {
		other := viewSteps + viewTime - from
		m.lists[other].cursor, m.lists[other].follow = m.lists[from].cursor, m.lists[from].follow
		if items := m.items(); !m.lists[from].follow {
			m.lists[other].top = m.lists[from].place(items, m.rows(), m.focus()).at
		}
		m.log = ""
		if s := m.selected(); s != nil && !m.lists[from].follow {
			m.log = s.Name
		}
	}
	if v == viewLog {
		m.lists[viewLog].follow = true
	}
	m.view = v
}

func (m *Model) turn(by int) { m.show((m.view + view(by) + views) % views) }

func (m *Model) move(by int) {
	switch {
	case m.help:
		m.scrollHelp(by)
	case m.view == viewLog:
		m.scrollLog(by)
	default:
		items, l := m.items(), &m.lists[m.view]
		p := l.place(items, m.rows(), m.focus())
		l.to(items, m.rows(), p, p.at+by)
	}
}

// page moves by a page: in lists the lines too, for what is open may be long.
func (m *Model) page(by int) {
	switch rows := m.rows(); {
	case m.help:
		m.scrollHelp(by * rows)
	case m.view == viewLog:
		m.scrollLog(by * max(rows-2, 1))
	default:
		items, l := m.items(), &m.lists[m.view]
		p := l.place(items, rows, m.focus())
		top := min(max(p.top+by*rows, 0), max(p.total-rows, 0))
		at := len(items) - 1
		if by < 0 && p.top == 0 {
			at = 0
		} else if by < 0 || p.top != top {
			at = place{top: top}.hit(items, rows/2)
		}
		l.to(items, rows, p, at)
		l.top = top
	}
}

func (m *Model) end(by int) {
	switch {
	case m.help:
		m.scrollHelp(by * len(m.helpLines()))
	case m.view == viewLog && by > 0:
		m.lists[viewLog].follow = true
	case m.view == viewLog:
		m.lists[viewLog].follow, m.lists[viewLog].top = false, 0
	default:
		items, l := m.items(), &m.lists[m.view]
		at := 0
		if by > 0 {
			at = len(items) - 1
		}
		l.to(items, m.rows(), l.place(items, m.rows(), m.focus()), at)
	}
}

func (m *Model) follow() {
	m.lists[m.view].follow = true
	if m.view == viewSteps || m.view == viewTime {
		m.log = ""
	}
}

// toggle opens or closes the item under the cursor. In the timeline it opens the
// step's log.
func (m *Model) toggle() {
	switch m.view {
	case viewTime:
		if s := m.selected(); s != nil {
			m.lists[viewTime].cursor, m.lists[viewTime].follow = s.Name, false
		}
		m.show(viewLog)
	case viewSteps, viewHooks:
		items, l := m.items(), &m.lists[m.view]
		if len(items) == 0 {
			return
		}
		p := l.place(items, m.rows(), m.focus())
		it := items[p.at]
		if len(it.more) > 0 {
			l.open[it.key] = false
		} else {
			l.open[it.key] = true
		}
		l.to(m.items(), m.rows(), p, p.at)
	case viewLog, views:
		m.show(viewSteps)
	}
}

// neighbour turns to the log of the step before or after.
func (m *Model) neighbour(by int) {
	steps, s := m.run.Steps(), m.selected()
	i := slices.Index(steps, s) + by
	if s != nil && i >= 0 && i < len(steps) {
		m.log = steps[i].Name
		m.lists[viewLog].follow = true
	}
}

// stop stops the run, and says what that means: the run's own event follows.
func (m *Model) stop() Act {
	m.stops++
	m.typing = false
	if m.stops == 1 {
		m.say(style.Stop, "stopping: nothing new starts, requests in flight may end; ^C again aborts at once")
	}
	return Act{Do: DoStop}
}

// pace plays a recorded run faster or slower.
func (m *Model) pace(by float64) { m.Speed = min(max(m.Speed*by, 1.0/16), 1024) }
