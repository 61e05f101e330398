// Package fleetview shows the run of a fleet while it goes on: as lines for people, for
// GitHub Actions or for programs, and on a terminal that takes keys.
//
// It knows a run by its events alone, and decides nothing about it. One cluster's own run
// is shown by package tui.
package fleetview

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/pump"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/fleet"
)

// Renderer shows the events of one run. Observe never waits for the output.
type Renderer interface {
	Observe(fleet.Event)
	// Close shows what is left, and the summary if the run has ended. It returns the first
	// error of writing; a reader that went away is none.
	Close() error
}

// Options say how a renderer draws, as those of a single run do.
type Options struct {
	ui.Options
	// Command is what a user types to have a verb done to this run, such as resume or, with
	// a wave's name, approve. Nil is for a run that takes no orders any more.
	Command func(verb string, args ...string) string
}

// command is what a user types; "" when there is nothing.
func (o Options) command(verb string, args ...string) string {
	if o.Command == nil {
		return ""
	}
	return o.Command(verb, args...)
}

// New makes the renderer of a mode that was chosen (see ui.Environment). It writes to out
// from one goroutine of its own, which Close ends. TTY, which Open draws, and Auto are
// written as Plain is.
func New(mode ui.Mode, out io.Writer, o Options) Renderer { return pump.Start(newDrawer(mode, out, o)) }

// Play writes a recorded run at once, as a renderer of the mode would have written it while
// its time passed.
func Play(mode ui.Mode, out io.Writer, o Options, events []fleet.Event) error {
	return pump.Play(newDrawer(mode, out, o), func(e fleet.Event) time.Time { return e.Time }, events)
}

func newDrawer(mode ui.Mode, out io.Writer, o Options) pump.Drawer[fleet.Event] {
	switch mode {
	case ui.JSON:
		return &jsonl{pump.Sink{Out: out}}
	case ui.Quiet:
		return &quiet{Sink: pump.Sink{Out: out}, Options: o}
	case ui.GitHub:
		return newGitHub(out, o)
	case ui.Auto, ui.TTY, ui.Plain:
	}
	return newPlain(out, o)
}

// jsonl writes each event as one line of JSON.
type jsonl struct{ pump.Sink }

// Draw implements pump.Drawer.
func (j *jsonl) Draw(e fleet.Event) { j.Buf.Write(data.Line(e)) }

// quiet only tells that nothing new starts any more.
type quiet struct {
	pump.Sink
	Options
}

// Draw implements pump.Drawer.
func (q *quiet) Draw(e fleet.Event) {
	if e.Type == fleet.TypeStop {
		fmt.Fprintln(&q.Buf, q.Clean(StopText(e.Reason)+": nothing new starts"))
	}
}

// Standby is a renderer as that of Plain, which stands by while a Display shows the run:
// until Speak it writes nothing but the summary, when it is closed.
type Standby struct {
	Renderer
	drawer *standby
}

// NewStandby makes a renderer that stands by.
func NewStandby(out io.Writer, o Options) *Standby {
	d := &standby{plain: newPlain(out, o)}
	return &Standby{pump.Start(d), d}
}

// Speak makes it write what happens from now on.
func (a *Standby) Speak() { a.drawer.speaks.Store(true) }

// standby drops the lines that were shown elsewhere.
type standby struct {
	*plain
	speaks atomic.Bool
}

// Flush implements pump.Drawer.
func (a *standby) Flush() {
	if !a.speaks.Load() {
		a.Buf.Reset()
	}
	a.plain.Flush()
}

// Close implements pump.Drawer.
func (a *standby) Close() error {
	a.Flush()
	return a.plain.Close()
}
