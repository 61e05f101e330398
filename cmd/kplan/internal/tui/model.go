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
	// Member is the cluster whose run this is, when the display is a part of a fleet's:
	// keys that would close it lead back there.
	Member string
	// Replay says that the run was recorded, and Speed how many times as fast as it
	// was it is played; 0 is all at once.
	Replay bool
	Speed  float64
}

// view is one of the panes that the user can turn to.
type view int

const (
	viewSteps view = iota
	viewTime
	viewHooks
	viewLog

	views
)

// Model is all that the display knows: View is a function of it alone. Time comes
// in by Tick only, so that the same events give the same frames.
//
// It is not safe for concurrent use, and knows nothing of terminals.
type Model struct {
	*state
	steps *stepList
	chart *chart
	hooks *webhookList
	log   *log
	panes [views]pane // those four
	view  view
	help  *help

	paused  bool // the display is
	backlog []runner.Event
	tick    time.Time // the last that came, also while paused

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

const (
	flashFor = 5 * time.Second
	// findingFor is the same for what may explain why a step does not get on.
	findingFor = 30 * time.Second
)

// NewModel returns the model of a display that no event has reached.
func NewModel(o Options) *Model {
	s := &state{Options: o, Theme: style.Theme{Colour: o.Colour, Unicode: o.Unicode}, run: &timeline.Timeline{}, width: 80, height: 24}
	m := &Model{state: s, help: &help{state: s}}
	m.steps = &stepList{newList(s, "the plan has no steps")}
	m.chart = &chart{newList(s, "the plan has no steps")}
	m.hooks = &webhookList{newList(s, "no webhook has held a request or been waited for")}
	m.steps.source, m.chart.source, m.hooks.source = m.steps, m.chart, m.hooks
	m.log = &log{state: s, position: position{follow: true}, steps: m.steps}
	m.panes = [views]pane{m.steps, m.chart, m.hooks, m.log}
	return m
}

// Resize says how large the terminal is, in cells.
func (m *Model) Resize(width, height int) { m.width, m.height = max(width, 1), max(height, 1) }

// Tick says what time it is, and what happened. While the display is paused it
// is kept for later.
func (m *Model) Tick(now time.Time, events ...runner.Event) {
	if now.After(m.tick) {
		m.tick = now
	}
	if m.paused {
		m.backlog = append(m.backlog, events...)
		return
	}
	for _, e := range events {
		m.apply(e)
		switch e.Type {
		case runner.TypeOrder:
			text := words.Join(" ", e.Message, e.Step)
			m.flash = flash{style.Good, "ordered: " + text, e.Time.Add(flashFor)}
			if e.Error != "" {
				m.flash.role, m.flash.text = style.Bad, text+" refused: "+e.Error
			}
		case runner.TypeFinding:
			m.flashFinding(e)
		case runner.TypeDone: // what was said before depends on when that was
			m.flash = flash{}
		default:
		}
	}
	m.now = m.run.End(m.tick)
}

// flashFinding shows what may keep steps from their work, for a while. What is only good to
// know is in the log.
func (m *Model) flashFinding(e runner.Event) {
	if e.Finding == nil || e.Finding.Severity == "note" {
		return
	}
	role := style.Wait
	if e.Finding.Severity == "error" {
		role = style.Bad
	}
	m.flash = flash{role, words.Join(" ", e.Step, ui.Finding(e)), e.Time.Add(findingFor)}
}

func (m *Model) say(role style.Role, text string) {
	m.flash = flash{role, text, m.tick.Add(flashFor)}
}

// pause pauses the display, or goes on and shows what happened in between.
func (m *Model) pause() {
	m.paused = !m.paused
	if !m.paused {
		events := m.backlog
		m.backlog = nil
		m.Tick(m.tick, events...)
	}
}

// Live reports whether anything shown changes by itself as time passes.
func (m *Model) Live() bool {
	return m.tick.Before(m.flash.until) || !m.paused && !m.Ended() && m.run.Execution().State() != ""
}

// pane returns what the body shows.
func (m *Model) pane() pane {
	if m.help.open {
		return m.help
	}
	return m.panes[m.view]
}

// selected returns the step that keys work on; nil when there is none.
func (m *Model) selected() *timeline.Step {
	switch m.view {
	case viewLog:
		return m.log.shown()
	case viewTime:
		return m.chart.selected()
	case viewSteps, viewHooks, views:
	}
	return m.steps.selected()
}

// show turns to a view. Steps and timeline have one cursor, and the log shows
// the step that has it.
func (m *Model) show(v view) {
	m.help.open = false
	if v == m.view {
		return
	}
	if m.view == viewSteps || m.view == viewTime {
		from, to := &m.steps.list, &m.chart.list
		if m.view == viewTime {
			from, to = to, from
		}
		to.cursor, to.follow, m.log.pinned = from.cursor, from.follow, ""
		if s := m.selected(); s != nil && !from.follow {
			to.top, m.log.pinned = from.window(m.bodyHeight()).at, s.Name
		}
	}
	if v == viewLog {
		m.log.follow = true
	}
	m.view = v
}

// View draws a frame: exactly as many lines as the terminal has, none wider.
func (m *Model) View() string { return frame{m}.draw() }
