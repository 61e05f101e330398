// Package tui shows a run on a terminal while it goes on, and takes keys: what each
// step is at, the ladder of each webhook that it waits for, a chart of the times,
// logs. It also plays recorded runs.
//
// It decides nothing about the run: what it shows was in an event, and what keys
// order it hands on. It is not for pipes and log files, which package ui writes, and
// knows nothing of Kubernetes.
//
// A Model takes events and keys, without a terminal. What it knows is a state, from
// which panes draw: one for each view (stepList, chart, webhookList, log) and the help.
// A frame puts header, pane and footer together. Display puts a Model on a terminal,
// by way of bubbletea.
package tui

import (
	"os"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/noquery"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/stage"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/runner"
)

func init() { noquery.Restore() }

// Config is what a Display works with.
type Config struct {
	Options
	// In and Out are the terminal.
	In, Out *os.File
	// Standby writes the summary when the display is closed, and goes on in lines when
	// that is before the end.
	Standby *ui.Standby
	// Stop stops the run as a signal does: the second call aborts it. It returns at
	// once.
	Stop func()
	// Stopped is closed when the run was told to stop; a display of such a run
	// does not stay.
	Stopped <-chan struct{}
	// Aborted is closed when it was told to stop at once.
	Aborted <-chan struct{}
	// Command gives orders to the run. The display closes it when it takes no keys
	// any more, so that no run lingers for them.
	Command chan<- runner.Order
	// Returned is called once the terminal is given back, if it is not nil. It may be
	// called twice.
	Returned func()
}

// Display is a renderer that draws on a terminal.
type Display struct{ *stage.Stage[runner.Event] }

// Open takes over the terminal.
func Open(c Config) *Display {
	s := newScreen(c)
	at := c.stage()
	at.Left = func() {
		if c.Command != nil {
			close(c.Command)
		}
	}
	at.Parting = func() string {
		if s.crash == nil && s.m.stops < 2 && !s.m.Ended() {
			return "the display is closed and the run goes on; ^C stops it"
		}
		return ""
	}
	return &Display{stage.Open(at, s)}
}

// stage is what the display of c stands on.
func (c Config) stage() stage.Config[runner.Event] {
	return stage.Config[runner.Event]{
		In: c.In, Out: c.Out, Standby: c.Standby, Stay: c.Stay, Stopped: c.Stopped, Aborted: c.Aborted, Returned: c.Returned,
	}
}

// Play shows a recorded run until the user closes the display, or Stopped is closed.
func Play(c Config, events []runner.Event) error {
	c.Replay, c.Stay, c.Orders = true, true, false
	s := newScreen(c)
	s.player = &player{stage.Player[runner.Event]{Events: events, At: func(e runner.Event) time.Time { return e.Time }}}
	s.player.play(s.m, time.Now())
	s.live.Store(true)
	return stage.Play(c.stage(), s, s.player.Shown)
}
