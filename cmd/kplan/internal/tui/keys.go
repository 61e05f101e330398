package tui

import (
	"fmt"
	"slices"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
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
	when  when
	do    func(*Model) Act
}

// when says in which displays a key is of use at all, and when it is there. What is
// nil means always.
type when struct {
	ever func(Options) bool
	now  func(*Model) bool
}

var (
	always   = when{}
	watching = when{func(o Options) bool { return !o.Replay }, goesOn}
	playing  = when{func(o Options) bool { return o.Replay }, goesOn}
	ordering = when{func(o Options) bool { return o.Orders }, func(m *Model) bool { return goesOn(m) && !m.Replay }}
	ending   = when{ordering.ever, func(m *Model) bool { return ordering.now(m) && m.run.Execution().Paused() }}
	alone    = when{ever: func(o Options) bool { return o.Member == "" }}
	partly   = when{ever: func(o Options) bool { return o.Member != "" }}
	onLog    = when{now: func(m *Model) bool { return m.view == viewLog }}
	strayed  = when{now: func(m *Model) bool { return !m.panes[m.view].where().follow }}
)

// settled reports whether there is nothing that a key would drop or close first.
func settled(m *Model) bool { return !m.help.open && m.filter.text == "" }

func goesOn(m *Model) bool { return !m.Ended() }

func (w when) fits(m *Model) bool {
	return (w.ever == nil || w.ever(m.Options)) && (w.now == nil || w.now(m))
}

func act(a Act) func(*Model) Act { return func(*Model) Act { return a } }

func within(f func(*Model)) func(*Model) Act {
	return func(m *Model) Act { f(m); return Act{} }
}

func moving(unit unit, by int) func(*Model) Act {
	return within(func(m *Model) { m.scroll(motion{unit, by}) })
}

// bindings returns all keys, in the order in which the help tells of them; the first
// that fits is taken.
func bindings() []binding {
	return []binding{
		{[]string{"up", "k"}, "", "up", always, moving(byRow, -1)},
		{[]string{"down", "j"}, "move", "down", always, moving(byRow, 1)},
		{[]string{"pgup", "b", "ctrl+b"}, "", "a page up", always, moving(byPage, -1)},
		{[]string{"pgdown", " ", "ctrl+f"}, "", "a page down", always, moving(byPage, 1)},
		{[]string{"home", "g"}, "", "to the top", always, moving(toEnd, -1)},
		{[]string{"end", "G"}, "", "to the end", always, moving(toEnd, 1)},
		{[]string{"enter", "o"}, "open", "open or close what the cursor is on", always, within((*Model).toggle)},
		{[]string{"f"}, "follow", "follow what happens", strayed, within((*Model).follow)},
		{[]string{"1", "2", "3", "4"}, "", "steps, timeline, webhooks, log of a step", always, nil}, // see Press
		{[]string{"tab"}, "view", "the next view", always, within(func(m *Model) { m.show((m.view + 1) % views) })},
		{[]string{"shift+tab"}, "", "the view before", always, within(func(m *Model) { m.show((m.view + views - 1) % views) })},
		{[]string{"[", "left", "h"}, "", "log of the step before", onLog, within(func(m *Model) { m.neighbour(-1) })},
		{[]string{"]", "right", "l"}, "step", "log of the next step", onLog, within(func(m *Model) { m.neighbour(1) })},
		{[]string{"/"}, "filter", "show only what has all words of a filter", always, within(func(m *Model) { m.filter.typing, m.help.open = true, false })},
		{[]string{"esc"}, "back", "back to the fleet", when{partly.ever, settled}, act(Act{Do: DoLeave})},
		{[]string{"esc"}, "", "drop the filter, close this help", always, within((*Model).escape)},
		{[]string{"p"}, "pause", "pause the display; the run goes on", watching, within((*Model).pause)},
		{[]string{"p"}, "pause", "pause, or go on playing", playing, within((*Model).pause)},
		{[]string{"+"}, "faster", "play twice as fast", playing, within(func(m *Model) { m.play(2) })},
		{[]string{"-"}, "slower", "play half as fast", playing, within(func(m *Model) { m.play(0.5) })},
		{[]string{"r"}, "retry", "try a step that failed, or waits for its next attempt, again now", ordering, (*Model).retry},
		{[]string{"s"}, "skip", "skip the wait of a wait or webhook step, once you have confirmed it", ordering, (*Model).skip},
		{[]string{"e"}, "end run", "end a run that waits for orders", ending, act(Act{Do: DoOrder, Order: runner.Order{Verb: runner.OrderEnd}})},
		{[]string{"m"}, "", "take or leave the mouse, to select text with it", always, act(Act{Do: DoMouse})},
		{[]string{"ctrl+l"}, "", "draw the screen anew", always, act(Act{Do: DoRedraw})},
		{[]string{"?"}, "help", "this help", always, within(func(m *Model) { m.help.open, m.help.top = !m.help.open, 0 })},
		{[]string{"ctrl+c"}, "stop", "stop the run: nothing new starts; pressed again, abort it at once. After its end, close the display", watching, (*Model).stop},
		{[]string{"q"}, "", "back to the fleet", partly, act(Act{Do: DoLeave})},
		{[]string{"q"}, "quit", "close the display; a run that goes on is told of line by line", alone, act(Act{Do: DoLeave})},
		{[]string{"ctrl+c"}, "", "", always, act(Act{Do: DoLeave})},
	}
}

// inHelp are the keys that do the same while the help is shown. Others only close it.
var inHelp = []string{"up", "down", "pgup", "pgdown", "home", "end", "?", "esc", "ctrl+c", "ctrl+l", "m"}

// Press takes a key, by the name that bubbletea gives it.
func (m *Model) Press(key string) Act {
	switch {
	case m.ask != nil:
		return m.answer(key)
	case m.filter.typing && key != "ctrl+c":
		m.filter.press(key)
		return Act{}
	case m.help.open && (key == "q" || key == "enter"):
		m.help.open = false
		return Act{}
	case key >= "1" && key <= "4" && len(key) == 1:
		m.show(view(key[0] - '1'))
		return Act{}
	}
	for _, b := range bindings() {
		if b.do == nil || !slices.Contains(b.keys, key) || !b.when.fits(m) {
			continue
		}
		if m.help.open && !slices.Contains(inHelp, b.keys[0]) {
			m.help.open = false
			return Act{}
		}
		return b.do(m)
	}
	return Act{}
}

// answer takes a key while a question is open.
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

// Paste takes text that was pasted: it goes into the filter, and is never taken
// for keys.
func (m *Model) Paste(text string) {
	if m.filter.typing {
		m.filter.text += words.Line(text)
	}
}

// Wheel scrolls by lines, without moving the cursor.
func (m *Model) Wheel(lines int) { m.scroll(motion{byWheel, lines}) }

// Click puts the cursor on what is at a line of the screen; on what has it
// already, it opens or closes that.
func (m *Model) Click(x, y int) {
	list, is := m.pane().(interface{ click(line, height int) bool })
	if is && m.ask == nil && list.click(y-m.headerHeight(), m.bodyHeight()) {
		m.toggle()
	}
}

func (m *Model) scroll(by motion) { m.pane().scroll(by, m.bodyHeight()) }

func (m *Model) escape() {
	if m.help.open {
		m.help.open = false
		return
	}
	m.filter.text = ""
}

func (m *Model) follow() {
	m.panes[m.view].where().follow = true
	if m.view == viewSteps || m.view == viewTime {
		m.log.pinned = ""
	}
}

// toggle opens or closes the item under the cursor. In the timeline it opens the
// step's log.
func (m *Model) toggle() {
	switch m.view {
	case viewTime:
		if s := m.chart.selected(); s != nil {
			m.chart.cursor, m.chart.follow = s.Name, false
		}
		m.show(viewLog)
	case viewSteps:
		m.steps.toggle(m.bodyHeight())
	case viewHooks:
		m.hooks.toggle(m.bodyHeight())
	case viewLog, views:
		m.show(viewSteps)
	}
}

func (m *Model) neighbour(by int) {
	steps, s := m.run.Steps(), m.selected()
	i := slices.Index(steps, s) + by
	if s != nil && i >= 0 && i < len(steps) {
		m.log.pinned, m.log.follow = steps[i].Name, true
	}
}

func (m *Model) play(by float64) { m.Speed = min(max(m.Speed*by, 1.0/16), 1024) }

func (m *Model) retry() Act {
	s := m.target(retryable)
	if s == nil {
		m.say(style.Wait, "r is for a step that failed or waits for its next attempt")
		return Act{}
	}
	return Act{Do: DoOrder, Order: runner.Order{Verb: runner.OrderRetry, Step: s.Name}}
}

func (m *Model) skip() Act {
	s := m.target(skippable)
	if s == nil {
		m.say(style.Wait, "s is for a wait or webhook step that is not over")
		return Act{}
	}
	m.ask = &question{
		text: fmt.Sprintf("skip the wait of %s? what needs it goes on", words.Line(s.Name)),
		yes:  Act{Do: DoOrder, Order: runner.Order{Verb: runner.OrderSkip, Step: s.Name}},
	}
	return Act{}
}

// stop stops the run, and says what that means: the run's own event follows.
func (m *Model) stop() Act {
	m.stops++
	m.filter.typing = false
	if m.stops == 1 {
		m.say(style.Stop, "stopping: nothing new starts, requests in flight may end; ^C again aborts at once")
	}
	return Act{Do: DoStop}
}

func retryable(s *timeline.Step) bool {
	return s.State == runner.StateFailed || s.State == runner.StateRetrying
}

func skippable(s *timeline.Step) bool {
	return (s.Kind == "wait" || s.Kind == "webhook") && !s.State.Terminal()
}

// target returns the step under the cursor if it is fit; while the cursor follows, it
// may be the only one that is.
func (m *Model) target(fit func(*timeline.Step) bool) *timeline.Step {
	s := m.selected()
	if s != nil && fit(s) {
		return s
	}
	if m.view == viewLog && m.log.pinned != "" || (m.view == viewSteps || m.view == viewTime) && !m.panes[m.view].where().follow {
		return nil
	}
	var only *timeline.Step
	for _, s := range m.run.Steps() {
		if fit(s) {
			if only != nil {
				return nil
			}
			only = s
		}
	}
	return only
}
