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
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"golang.org/x/term"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/pump"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/noquery"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/runner"
)

func init() { noquery.Restore() }

const (
	// frames is how many frames a second are drawn at most.
	frames = 10
	// pace is the least time between two batches of events.
	pace = time.Second / frames
)

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

// Display is a renderer that draws on a terminal. Two goroutines of its own, which
// end before Close returns, carry the events and draw.
type Display struct {
	Config
	screen  *screen
	program *tea.Program
	before  *term.State // of the terminal

	queue  *pump.Queue[runner.Event]
	closed atomic.Bool

	gone chan struct{} // closed when the terminal is as it was before
	sent chan struct{} // closed when all events are drawn, or need not be
}

// Open takes over the terminal.
func Open(c Config) *Display {
	d := &Display{Config: c, queue: pump.NewQueue[runner.Event](), gone: make(chan struct{}), sent: make(chan struct{})}
	d.before, _ = term.GetState(int(c.In.Fd())) // nil for what is no terminal
	d.screen = &screen{Config: c, m: NewModel(c.Options), mouse: true}
	d.program = start(d.screen)
	go d.draw()
	go d.carry()
	return d
}

// start makes the program that shows s.
func start(s *screen) *tea.Program {
	if width, height, err := term.GetSize(int(s.Out.Fd())); err == nil {
		s.m.Resize(width, height)
	}
	s.frame = s.m.View()
	return tea.NewProgram(s,
		tea.WithInput(s.In), tea.WithOutput(s.Out), tea.WithAltScreen(), tea.WithMouseCellMotion(),
		tea.WithFPS(frames), tea.WithoutSignalHandler())
}

// draw runs the program until a key or Close ends it. From then on the run is
// told of line by line.
func (d *Display) draw() {
	defer close(d.gone)
	_, err := d.program.Run()
	d.returned()
	if d.Command != nil {
		close(d.Command)
	}
	if fault := d.screen.fault(err); fault != nil {
		ui.Problem(d.Out, ui.Options{}, fault.Error(), "the run goes on; --progress plain does without the display")
	}
	if d.closed.Load() {
		return
	}
	if d.screen.crash == nil && d.screen.m.stops < 2 && !d.screen.m.Ended() {
		fmt.Fprintln(d.Out, "the display is closed and the run goes on; ^C stops it")
	}
	d.Standby.Speak()
}

// Observe implements runner.Observer.
func (d *Display) Observe(e runner.Event) {
	d.Standby.Observe(e)
	select {
	case <-d.gone: // nobody takes it any more
		return
	default:
	}
	d.queue.Observe(e)
}

// Close implements ui.Renderer: it shows the end, waits for the user if the display
// stays, gives the terminal back and writes the summary.
func (d *Display) Close() error {
	d.closed.Store(true)
	d.queue.End()
	select {
	case <-d.sent:
	case <-d.Aborted: // the terminal may not read
	}
	if d.Stay {
		select {
		case <-d.gone:
		case <-d.Stopped:
		case <-d.Aborted:
		}
	}
	if !d.quit() {
		return nil // the summary would hang as well
	}
	return d.Standby.Close()
}

// quit ends the program, and reports whether it has ended. After an abort it waits a
// moment only: the program hangs while the terminal does not read.
func (d *Display) quit() bool {
	go d.program.Quit() // ends with the program
	select {
	case <-d.gone:
		return true
	case <-d.Aborted:
	}
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-d.gone:
		return true
	case <-timer.C:
	}
	if d.before != nil {
		_ = term.Restore(int(d.In.Fd()), d.before)
	}
	d.returned()
	return false
}

func (d *Display) returned() {
	if d.Returned != nil {
		d.Returned()
	}
}

// Release gives the terminal back at once, whatever is left to be shown. After
// Close it does nothing.
func (d *Display) Release() {
	d.closed.Store(true)
	d.quit()
}

// beat is a message: what time it is, and what happened.
type beat struct {
	now    time.Time
	events []runner.Event
}

// carry hands events to the program in batches, and says how time passes while
// that is to be seen.
func (d *Display) carry() {
	over := sync.OnceFunc(func() { close(d.sent) })
	defer over()
	clock := time.NewTicker(spin)
	defer clock.Stop()
	for {
		select {
		case <-d.queue.Wake:
		case <-clock.C:
		case <-d.gone:
			return
		}
		events, ended := d.queue.Take()
		if len(events) > 0 || d.screen.live.Load() {
			d.program.Send(beat{time.Now(), events}) // blocks while the terminal does not read
		}
		if ended {
			over()
		}
		select {
		case <-time.After(pace):
		case <-d.gone:
			return
		}
	}
}

// Play shows a recorded run until the user closes the display, or Stopped is closed.
func Play(c Config, events []runner.Event) error {
	c.Replay, c.Stay, c.Orders = true, true, false
	d := &Display{Config: c, gone: make(chan struct{})}
	d.closed.Store(true)
	d.screen = &screen{Config: c, m: NewModel(c.Options), mouse: true, player: &player{events: events}}
	d.screen.player.play(d.screen.m, time.Now())
	d.program = start(d.screen)
	go d.draw()
	clock := time.NewTicker(pace)
	defer clock.Stop()
	for stopped, open := c.Stopped, true; open; {
		select {
		case now := <-clock.C:
			if d.screen.live.Load() {
				d.program.Send(beat{now: now})
			}
		case <-stopped:
			stopped = nil
			d.program.Quit()
		case <-d.gone:
			open = false
		}
	}
	for _, e := range events[:d.screen.player.next] {
		d.Standby.Observe(e)
	}
	return d.Standby.Close()
}
