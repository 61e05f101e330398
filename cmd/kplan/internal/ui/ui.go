// Package ui shows a run where nobody presses keys: it turns the event stream of
// package runner into lines for people, for GitHub Actions, or for programs.
//
// It decides nothing about the run, reads no environment, and knows nothing of
// Kubernetes: whatever it shows was in an event, so that a recorded stream
// shows the same again.
package ui

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/actions"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/pump"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// Options say how a renderer draws.
type Options struct {
	// Colour allows colours. They only repeat what the words say.
	Colour bool
	// Actions says that the runner of GitHub Actions reads the output: nothing that
	// a cluster or a chart says may look like a command to it.
	Actions bool
	// Logs says which logs of pods are shown.
	Logs Logs
	// Root is the folder that paths of annotations are relative to; "" leaves them
	// as they are.
	Root string
	// Called puts commands of kplan in a hint as the user calls kplan; nil leaves them
	// as they are.
	Called func(hint string) string
}

// Hint is a hint as the user calls kplan.
func (o Options) Hint(s string) string {
	if o.Called == nil {
		return s
	}
	return o.Called(s)
}

// Clean is the function Clean, for where the output goes.
func (o Options) Clean(s string) string {
	if s = words.Clean(s); o.Actions {
		s = actions.Inert(s)
	}
	return s
}

// Paint puts s into the colour of an SGR code.
func (o Options) Paint(code, s string) string {
	if !o.Colour || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Problem writes an error and what to do about it, as every command does.
func Problem(w io.Writer, o Options, text, hint string) {
	fmt.Fprintf(w, "%s %s\n", o.Paint("31;1", "error:"), words.Indent(o.Clean(text), "  "))
	if hint != "" {
		fmt.Fprintf(w, "%s %s\n", o.Paint("36", "hint:"), words.Indent(o.Clean(o.Hint(hint)), "  "))
	}
}

// Renderer shows the events of one run. Observe never waits for the output.
type Renderer interface {
	runner.Observer
	// Close shows what is left, and the summary if the run has ended. It
	// returns the first error of writing; a reader that went away is none.
	Close() error
}

// New makes the renderer of a mode that was chosen (see Environment.Choose). It
// writes to out from one goroutine of its own, which Close ends. TTY, which this
// package does not draw, and Auto are written as Plain is.
func New(out io.Writer, mode Mode, o Options) Renderer { return pump.Start(newDrawer(out, mode, o)) }

// NewJSON makes a renderer which writes every event as one line of JSON; it
// also records runs. The lines are pure ASCII where a terminal might obey
// them, and decode to exactly the events.
func NewJSON(out io.Writer) Renderer { return New(out, JSON, Options{}) }

// Play writes a recorded run at once, as a renderer of the mode would have written
// it while its time passed.
func Play(out io.Writer, mode Mode, o Options, events []runner.Event) error {
	return pump.Play(newDrawer(out, mode, o), func(e runner.Event) time.Time { return e.Time }, events)
}

func newDrawer(out io.Writer, mode Mode, o Options) pump.Drawer[runner.Event] {
	switch mode {
	case JSON:
		return &jsonl{Sink: pump.Sink{Out: out}}
	case Quiet:
		return &quiet{Sink: pump.Sink{Out: out}, Options: o}
	case GitHub:
		return newGitHub(out, o)
	case Auto, TTY, Plain:
	}
	return newPlain(out, o)
}

// jsonl writes each event as one line of JSON.
type jsonl struct{ pump.Sink }

func (j *jsonl) Draw(e runner.Event) {
	j.Buf.Write(data.Line(e))
}

// quiet only tells that the run was told to stop: without it, somebody who
// pressed ^C would think that nothing happened.
type quiet struct {
	pump.Sink
	Options
}

func (q *quiet) Draw(e runner.Event) {
	if e.Type == runner.TypeCancel {
		fmt.Fprintln(&q.Buf, q.Clean(stopNotice(e)))
	}
}

// stopNotice says what being stopped means, and what a signal does now.
func stopNotice(e runner.Event) string {
	return e.Error + ": " + words.Join(", ", "nothing new starts", "requests in flight may end", e.Message) + "; ^C now aborts at once"
}

// Standby is a renderer as that of Plain, which stands by while something else shows
// the run: until Speak it writes nothing but the summary, when it is closed.
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

func (a *standby) Flush() {
	if !a.speaks.Load() {
		a.Buf.Reset()
	}
	a.plain.Flush()
}

func (a *standby) Close() error {
	a.Flush()
	return a.plain.Close()
}
