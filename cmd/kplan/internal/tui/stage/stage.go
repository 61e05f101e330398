// Package stage puts a display on a terminal by way of bubbletea: it brings events there in
// batches, and gives the terminal back in whatever way the display ends.
//
// What is drawn is its Screen's business, and what the events are its user's.
package stage

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"golang.org/x/term"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/pump"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
)

const (
	// frames is how many frames a second are drawn at most.
	frames = 10
	// Pace is the least time between two batches of events.
	Pace = time.Second / frames
	// Spin is how often it is told how time passes while that is to be seen.
	Spin = 250 * time.Millisecond
)

// Screen is what is drawn. Only the program's goroutine uses it, but for Live.
type Screen interface {
	tea.Model
	// Resize says how large the terminal is, before the first frame.
	Resize(width, height int)
	// Live reports whether time that passes is to be seen.
	Live() bool
	// Fault returns why the display ended, if that is a fault; err is what the program
	// ended with.
	Fault(err error) error
}

// Standby writes what a display does not show.
type Standby[E any] interface {
	Observe(E)
	// Speak makes it write what happens from now on; before, it writes the summary alone.
	Speak()
	Close() error
}

// Beat is a message to the Screen: what time it is, and what happened.
type Beat[E any] struct {
	Now    time.Time
	Events []E
}

// Config is what a Stage works with.
type Config[E any] struct {
	// In and Out are the terminal.
	In, Out *os.File
	// Standby writes the summary when the display is closed, and goes on in lines when
	// that is before the end.
	Standby Standby[E]
	// Stay keeps the display open after the run has ended, until a key closes it.
	Stay bool
	// Stopped is closed when the run was told to stop; a display of such a run does not
	// stay.
	Stopped <-chan struct{}
	// Aborted is closed when it was told to stop at once.
	Aborted <-chan struct{}
	// Left is called once the display takes no keys any more.
	Left func()
	// Parting says what is told of a display that a key closed; it may be empty.
	Parting func() string
	// Returned is called once the terminal is given back, if it is not nil. It may be
	// called twice.
	Returned func()
}

// Stage shows a Screen. Two goroutines of its own, which end before Close returns, carry
// the events and draw.
type Stage[E any] struct {
	Config[E]
	// Gone is closed when the terminal is as it was before, and Sent when all events are
	// drawn, or need not be.
	Gone, Sent chan struct{}

	screen  Screen
	program *tea.Program
	before  *term.State // of the terminal
	queue   *pump.Queue[E]
	closed  atomic.Bool
}

// Open takes over the terminal.
func Open[E any](c Config[E], s Screen) *Stage[E] {
	d := stage(c, s)
	go d.draw()
	go d.carry()
	return d
}

func stage[E any](c Config[E], s Screen) *Stage[E] {
	d := &Stage[E]{Config: c, screen: s, queue: pump.NewQueue[E](), Gone: make(chan struct{}), Sent: make(chan struct{})}
	d.before, _ = term.GetState(int(c.In.Fd())) // nil for what is no terminal
	if width, height, err := term.GetSize(int(c.Out.Fd())); err == nil {
		s.Resize(width, height)
	}
	d.program = tea.NewProgram(s,
		tea.WithInput(c.In), tea.WithOutput(c.Out), tea.WithAltScreen(), tea.WithMouseCellMotion(),
		tea.WithFPS(frames), tea.WithoutSignalHandler())
	return d
}

// draw runs the program until a key or Close ends it. From then on the run is told of line
// by line.
func (d *Stage[E]) draw() {
	defer close(d.Gone)
	_, err := d.program.Run()
	d.returned()
	if d.Left != nil {
		d.Left()
	}
	if fault := d.screen.Fault(err); fault != nil {
		ui.Problem(d.Out, ui.Options{}, fault.Error(), "the run goes on; --progress plain does without the display")
	}
	if d.closed.Load() {
		return
	}
	if text := d.Parting(); text != "" {
		fmt.Fprintln(d.Out, text)
	}
	d.Standby.Speak()
}

// Send gives a message to the Screen. It blocks while the terminal does not read.
func (d *Stage[E]) Send(msg tea.Msg) { d.program.Send(msg) }

// Observe brings an event to the display. It never waits for the terminal.
func (d *Stage[E]) Observe(e E) {
	d.Standby.Observe(e)
	select {
	case <-d.Gone: // nobody takes it any more
		return
	default:
	}
	d.queue.Observe(e)
}

// Close shows the end, waits for the user if the display stays, gives the terminal back and
// writes the summary.
func (d *Stage[E]) Close() error {
	d.closed.Store(true)
	d.queue.End()
	select {
	case <-d.Sent:
	case <-d.Aborted: // the terminal may not read
	}
	if d.Stay {
		select {
		case <-d.Gone:
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
func (d *Stage[E]) quit() bool {
	go d.program.Quit() // ends with the program
	select {
	case <-d.Gone:
		return true
	case <-d.Aborted:
	}
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-d.Gone:
		return true
	case <-timer.C:
	}
	if d.before != nil {
		_ = term.Restore(int(d.In.Fd()), d.before)
	}
	d.returned()
	return false
}

func (d *Stage[E]) returned() {
	if d.Returned != nil {
		d.Returned()
	}
}

// Release gives the terminal back at once, whatever is left to be shown. After Close it
// does nothing.
func (d *Stage[E]) Release() {
	d.closed.Store(true)
	d.quit()
}

// carry hands events to the program in batches, and says how time passes while that is to
// be seen.
func (d *Stage[E]) carry() {
	over := sync.OnceFunc(func() { close(d.Sent) })
	defer over()
	clock := time.NewTicker(Spin)
	defer clock.Stop()
	for {
		select {
		case <-d.queue.Wake:
		case <-clock.C:
		case <-d.Gone:
			return
		}
		events, ended := d.queue.Take()
		if len(events) > 0 || d.screen.Live() {
			d.Send(Beat[E]{time.Now(), events})
		}
		if ended {
			over()
		}
		select {
		case <-time.After(Pace):
		case <-d.Gone:
			return
		}
	}
}

// Play shows a Screen that plays by itself, until the user closes it or Stopped is closed,
// and then the summary of the events that were shown.
func Play[E any](c Config[E], s Screen, shown func() []E) error {
	d := stage(c, s)
	d.closed.Store(true)
	go d.draw()
	clock := time.NewTicker(Pace)
	defer clock.Stop()
	for stopped, open := c.Stopped, true; open; {
		select {
		case now := <-clock.C:
			if s.Live() {
				d.Send(Beat[E]{Now: now})
			}
		case <-stopped:
			stopped = nil
			d.program.Quit()
		case <-d.Gone:
			open = false
		}
	}
	for _, e := range shown() {
		c.Standby.Observe(e)
	}
	return c.Standby.Close()
}
