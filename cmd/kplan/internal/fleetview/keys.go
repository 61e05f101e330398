package fleetview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
)

// Verb is what an order has done.
type Verb string

// The verbs.
const (
	Pause   Verb = "pause"
	Resume  Verb = "resume"
	Approve Verb = "approve"
	Abort   Verb = "abort"
)

// Order is what somebody orders by a key.
type Order struct {
	Verb Verb
	// Wave is what is approved.
	Wave string
	// Now says that what is at work is stopped, with Abort.
	Now bool
}

// act is what a key asks of the program around the model.
type act struct {
	do do
	// order is for the run, with doOrder.
	order Order
	// cluster is what is to be shown, with doOpen.
	cluster string
}

type do int

const (
	doNothing do = iota
	doLeave
	doStop
	doOrder
	doOpen
	doClose // the cluster that is shown
	doRedraw
	doMouse
)

// binding is what a key does, when, and how the help says that.
type binding struct {
	keys  []string
	short string // in the footer; "" is not there
	help  string
	when  when
	do    func(*model) act
}

// when says in which displays a key is of use at all, and when it is there. What is nil
// means always.
type when struct {
	ever func(Look) bool
	now  func(*model) bool
}

func (w when) fits(m *model) bool {
	return (w.ever == nil || w.ever(m.Look)) && (w.now == nil || w.now(m))
}

func goesOn(m *model) bool { return !m.ended() }

var (
	always   = when{}
	watching = when{func(l Look) bool { return !l.Replay }, goesOn}
	playing  = when{func(l Look) bool { return l.Replay }, goesOn}
	ordering = func(l Look) bool { return l.Orders && !l.Replay }
	running  = when{ordering, func(m *model) bool { return goesOn(m) && !m.x.Control.Paused && m.x.Stop == nil }}
	resting  = when{ordering, func(m *model) bool { return goesOn(m) && m.x.Control.Paused && m.x.Stop == nil }}
	waiting4 = when{ordering, func(m *model) bool { return goesOn(m) && m.waitingWave() != nil }}
	stopping = when{ordering, func(m *model) bool { return goesOn(m) && !m.x.Control.Now }}
)

func within(f func(*model)) func(*model) act { return func(m *model) act { f(m); return act{} } }

func does(a act) func(*model) act { return func(*model) act { return a } }

// bindings are all keys, in the order in which the help tells of them; the first that fits
// is taken.
func bindings() []binding {
	return []binding{
		{[]string{"up", "k"}, "", "up", always, within(func(m *model) { m.move(-1, 0) })},
		{[]string{"down", "j"}, "move", "down", always, within(func(m *model) { m.move(1, 0) })},
		{[]string{"left", "h"}, "", "to the cluster before", always, within(func(m *model) { m.move(0, -1) })},
		{[]string{"right", "l"}, "", "to the next cluster", always, within(func(m *model) { m.move(0, 1) })},
		{[]string{"pgup", "b", "ctrl+b"}, "", "a page up", always, within(func(m *model) { m.move(-m.bodyHeight(), 0) })},
		{[]string{"pgdown", " ", "ctrl+f"}, "", "a page down", always, within(func(m *model) { m.move(m.bodyHeight(), 0) })},
		{[]string{"home", "g"}, "", "to the top", always, within(func(m *model) { m.move(-1<<20, 0) })},
		{[]string{"end", "G"}, "", "to the end", always, within(func(m *model) { m.move(1<<20, 0) })},
		{[]string{"enter", "o"}, "open", "show the run of the cluster that has the cursor; open or close a wave or a group", always, (*model).enter},
		{[]string{"f"}, "failures", "only what failed, one below the other; again: all", always, within((*model).onlyFailed)},
		{[]string{"/"}, "filter", "only clusters whose name, wave, state or address has all words of a filter", always, within(func(m *model) { m.typing, m.help = true, false })},
		{[]string{"esc"}, "", "drop the filter, close this help, or let the view follow again", always, within((*model).escape)},
		{[]string{"a"}, "approve", "approve the wave that waits, once you have confirmed it", waiting4, (*model).approve},
		{[]string{"p"}, "pause", "let nothing new start; what is at work goes on", running, does(act{do: doOrder, order: Order{Verb: Pause}})},
		{[]string{"p"}, "resume", "go on after a pause", resting, does(act{do: doOrder, order: Order{Verb: Resume}})},
		{[]string{"x"}, "abort", "abort the run, once you have confirmed it: what is at work goes on to its end; again: stop that too", stopping, (*model).abort},
		{[]string{"p"}, "pause", "pause, or go on playing", playing, within(func(m *model) { m.paused = !m.paused })},
		{[]string{"+"}, "faster", "play twice as fast", playing, within(func(m *model) { m.play(2) })},
		{[]string{"-"}, "slower", "play half as fast", playing, within(func(m *model) { m.play(0.5) })},
		{[]string{"m"}, "", "take or leave the mouse, to select text with it", always, does(act{do: doMouse})},
		{[]string{"ctrl+l"}, "", "draw the screen anew", always, does(act{do: doRedraw})},
		{[]string{"?"}, "help", "this help", always, within(func(m *model) { m.help, m.helpTop = !m.help, 0 })},
		{[]string{"ctrl+c"}, "leave", "leave the run, which goes on", when{func(l Look) bool { return l.Detached && !l.Replay }, goesOn}, does(act{do: doStop})},
		{[]string{"ctrl+c"}, "stop", "stop the run: nothing new starts; pressed again, abort it at once. After its end, close the display", watching, (*model).stop},
		{[]string{"q"}, "quit", "close the display; a run that goes on is told of line by line", always, does(act{do: doLeave})},
		{[]string{"ctrl+c"}, "", "", always, does(act{do: doLeave})},
	}
}

// inHelp are the keys that do the same while the help is shown. Others only close it.
var inHelp = []string{"?", "esc", "ctrl+c", "ctrl+l", "m"}

// press takes a key, by the name that bubbletea gives it.
func (m *model) press(key string) act {
	switch {
	case m.member != nil && key != "ctrl+c":
		return m.pressMember(key)
	case m.ask != nil:
		return m.answer(key)
	case m.typing && key != "ctrl+c":
		m.typeFilter(key)
		return act{}
	case m.help && m.scrollHelp(key):
		return act{}
	}
	for _, b := range bindings() {
		if !slices.Contains(b.keys, key) || !b.when.fits(m) {
			continue
		}
		if m.help && !slices.Contains(inHelp, b.keys[0]) {
			m.help = false
			return act{}
		}
		return b.do(m)
	}
	return act{}
}

// pressMember gives a key to the run of the cluster that is shown.
func (m *model) pressMember(key string) act {
	switch a := m.member.m.Press(key); a.Do {
	case tui.DoLeave:
		m.member = nil
		return act{do: doClose}
	case tui.DoRedraw:
		return act{do: doRedraw}
	case tui.DoMouse:
		return act{do: doMouse}
	case tui.DoNothing, tui.DoStop, tui.DoOrder:
	}
	return act{}
}

// answer takes a key while a question is open.
func (m *model) answer(key string) act {
	q := m.ask
	switch key {
	case "y", "Y":
		m.ask = nil
		return q.yes
	case "n", "N", "esc", "q", "enter":
		m.ask = nil
	case "ctrl+c":
		m.ask = nil
		return m.press(key)
	}
	return act{}
}

// typeFilter takes a key while the filter is typed.
func (m *model) typeFilter(key string) {
	switch r := []rune(m.filter); key {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace", "ctrl+h":
		m.filter = string(r[:max(len(r)-1, 0)])
	case "ctrl+u", "ctrl+w":
		m.filter = ""
	default:
		if len([]rune(key)) == 1 {
			m.filter += words.Clean(key)
		}
	}
	m.cursor, m.top = "", 0
}

// paste takes text that was pasted: it goes into a filter, and is never taken for keys.
func (m *model) paste(text string) {
	switch {
	case m.member != nil:
		m.member.m.Paste(text)
	case m.typing:
		m.filter += words.Line(text)
	}
}

// enter shows the cluster that has the cursor, or opens or closes what else has it.
func (m *model) enter() act {
	if m.cursor == "" {
		m.move(0, 0)
		return act{}
	}
	if c := m.clusterOf(m.cursor); c != nil {
		m.member = m.newMember(c.Name)
		return act{do: doOpen, cluster: c.Name}
	}
	rows := m.rows()
	at := rowOf(rows, m.cursor)
	open := at+1 < len(rows) && len(rows[at+1].keys) > 0 && strings.HasPrefix(rows[at+1].keys[0], m.cursor+mark)
	m.open[m.cursor] = !open
	if m.cursor == moreKey {
		m.open[moreKey], m.cursor = true, ""
	}
	m.move(0, 0)
	return act{}
}

func (m *model) onlyFailed() {
	m.failed = !m.failed
	m.cursor, m.top = "", 0
}

func (m *model) escape() {
	switch {
	case m.help:
		m.help = false
	case m.filter != "":
		m.filter, m.cursor, m.top = "", "", 0
	case m.failed:
		m.onlyFailed()
	default:
		m.cursor, m.top = "", 0
	}
}

// waitingWave is the wave that waits for approval; nil when none does.
func (m *model) waitingWave() *fleet.WaveStatus {
	for _, w := range m.x.Waves {
		if w.State == fleet.WaveApproval {
			return w
		}
	}
	return nil
}

func (m *model) approve() act {
	w := m.waitingWave()
	m.ask = &question{
		text: fmt.Sprintf("approve wave %s? %s begin", words.Line(w.Name), words.Count(w.Counts()[fleet.Pending], "cluster")),
		yes:  act{do: doOrder, order: Order{Verb: Approve, Wave: w.Name}},
	}
	return act{}
}

func (m *model) abort() act {
	n := m.x.Counts()
	text := fmt.Sprintf("abort? %s do not begin, %d at work go on", words.Count(n[fleet.Pending], "cluster"), n[fleet.Running]+n[fleet.Holding])
	if m.x.Control.Aborted {
		text = fmt.Sprintf("stop what is at work too? that is the plan on %s", words.Count(n[fleet.Running]+n[fleet.Holding], "cluster"))
	}
	m.ask = &question{text: text, yes: act{do: doOrder, order: Order{Verb: Abort, Now: m.x.Control.Aborted}}}
	return act{}
}

// stop stops the run, and says what that means: the run's own events follow.
func (m *model) stop() act {
	m.stops++
	m.typing = false
	if m.stops == 1 {
		m.say(style.Stop, "stopping: nothing new starts, requests in flight may end; ^C again aborts at once")
	}
	return act{do: doStop}
}

func (m *model) play(by float64) { m.Speed = min(max(m.Speed*by, 1.0/16), 1024) }
