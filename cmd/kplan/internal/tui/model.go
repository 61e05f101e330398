package tui

import (
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// Options say how the display looks, and what its keys may do.
type Options struct {
	// Colour and Unicode are what the terminal can show. Colours only repeat what
	// the words say.
	Colour, Unicode bool
	// Logs says which logs of pods are shown below steps; their own view has all.
	Logs ui.Logs
	// Version is kplan's, for the header.
	Version string
	// Orders says that the run takes orders.
	Orders bool
	// Stay keeps the display open after the run has ended, until a key closes it.
	Stay bool
	// Replay says that the run was recorded, and Speed how many times as fast as it
	// was it is played; 0 is all at once.
	Replay bool
	Speed  float64
}

// view is one of the things that the body shows.
type view int

const (
	viewSteps view = iota
	viewTime
	viewHooks
	viewLog

	views
)

// Model is all that the display knows: View is a function of it alone. Time comes
// in by Beat only, so that the same events give the same frames.
//
// It is not safe for concurrent use, and knows nothing of terminals.
type Model struct {
	Options
	style.Theme

	run    *timeline.Timeline
	stalls ui.Stalls
	now    time.Time
	about  string // what the plan runs on
	names  int    // width of the longest step's name
	many   bool

	width, height int

	view   view
	lists  [views]list
	log    string // the step whose log is shown; "" follows the cursor
	filter string
	typing bool // the filter is being written
	help   bool
	helpAt int

	held    bool // the display is paused
	backlog []runner.Event
	beat    time.Time // the last that came, also while paused

	ask   *question
	flash flash
	stops int // how often ^C was pressed
}

// question waits for y or n.
type question struct {
	text string
	yes  Act
}

// flash is a notice that goes away.
type flash struct {
	role  style.Role
	text  string
	until time.Time
}

const flashFor = 5 * time.Second

// NewModel makes the model of a display that no event has reached.
func NewModel(o Options) *Model {
	m := &Model{Options: o, Theme: style.Theme{Colour: o.Colour, Unicode: o.Unicode}, run: &timeline.Timeline{}, width: 80, height: 24}
	for i := range m.lists {
		m.lists[i] = list{follow: true, open: map[string]bool{}}
	}
	return m
}

// Resize says how large the terminal is, in cells.
func (m *Model) Resize(width, height int) { m.width, m.height = max(width, 1), max(height, 1) }

// Beat says what time it is, and what happened. While the display is paused it
// is kept for later.
func (m *Model) Beat(now time.Time, events ...runner.Event) {
	if now.After(m.beat) {
		m.beat = now
	}
	if m.held {
		m.backlog = append(m.backlog, events...)
		return
	}
	for _, e := range events {
		m.apply(e)
	}
	m.now = m.run.End(m.beat)
}

func (m *Model) apply(e runner.Event) {
	m.run.Apply(e)
	m.stalls.Observe(e)
	switch e.Type {
	case runner.TypePlan:
		m.names, m.about = 0, e.Message
		for _, s := range e.Steps {
			m.names = max(m.names, words.Width(words.Line(s.Name)))
			m.many = m.many || s.Cluster != e.Steps[0].Cluster
		}
	case runner.TypeOrder:
		f := flash{style.Good, "ordered: " + words.Join(" ", e.Message, e.Step), e.Time.Add(flashFor)}
		if e.Error != "" {
			f.role, f.text = style.Bad, words.Join(" ", e.Message, e.Step)+" refused: "+e.Error
		}
		m.flash = f
	case runner.TypeDone: // what was said before depends on when that was
		m.flash = flash{}
	default:
	}
}

// say shows a notice for a while.
func (m *Model) say(role style.Role, text string) {
	m.flash = flash{role, text, m.beat.Add(flashFor)}
}

// hold pauses the display, or goes on and shows what happened in between.
func (m *Model) hold() {
	m.held = !m.held
	if m.held {
		return
	}
	events := m.backlog
	m.backlog = nil
	m.Beat(m.beat, events...)
}

// Ended tells whether the run has ended, as far as it is shown.
func (m *Model) Ended() bool { return m.run.Ended() }

// Live tells whether anything shown changes by itself as time passes.
func (m *Model) Live() bool {
	return m.beat.Before(m.flash.until) || !m.held && !m.run.Ended() && m.run.Execution().State() != ""
}
