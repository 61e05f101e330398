// Package ui shows a run: it turns the event stream of package runner into
// lines for people, or into JSON lines for programs.
//
// It decides nothing about the run, reads no environment, and knows nothing of
// Kubernetes: whatever it shows was in an event, so that a recorded stream
// shows the same again.
package ui

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/kplan-dev/kplan/runner"
)

// Mode is how a run is shown.
type Mode string

// The modes.
const (
	// Auto is the best mode for where the output goes.
	Auto Mode = "auto"
	// Plain writes one line for each change, and a table at the end.
	Plain Mode = "plain"
	// JSON writes every event as one line of JSON.
	JSON Mode = "json"
	// Quiet writes nothing but that the run was told to stop.
	Quiet Mode = "quiet"
)

// Modes are all modes, for help texts and completion.
var Modes = []Mode{Auto, Plain, JSON, Quiet}

// Options say how a renderer draws.
type Options struct {
	// Colour allows colours. They only repeat what the words say.
	Colour bool
}

// Renderer shows the events of one run. Observe never waits for the output.
type Renderer interface {
	runner.Observer
	// Close shows what is left, and the summary if the run has ended. It
	// returns the first error of writing; a reader that went away is none.
	Close() error
}

// ParseMode reads a mode.
func ParseMode(s string) (Mode, error) {
	if slices.Contains(Modes, Mode(s)) {
		return Mode(s), nil
	}
	names := make([]string, len(Modes))
	for i, m := range Modes {
		names[i] = string(m)
	}
	return "", fmt.Errorf("there is no progress mode %q, only %s", s, strings.Join(names, ", "))
}

// New makes the renderer of a mode. It writes to out from one goroutine of its
// own, which Close ends.
func New(out io.Writer, mode Mode, o Options) Renderer {
	switch mode {
	case JSON:
		return NewJSON(out)
	case Quiet:
		return &quiet{out}
	case Auto, Plain:
	}
	return newPump(newPlain(out, o))
}

// Reports tells whether a renderer of this mode shows by itself why a run failed.
func (m Mode) Reports() bool { return m != Quiet }

// quiet only tells that the run was told to stop: without it, somebody who
// pressed ^C would think that nothing happened.
type quiet struct{ out io.Writer }

func (q *quiet) Observe(e runner.Event) {
	if e.Type == runner.TypeCancel {
		fmt.Fprintln(q.out, stopNotice(e))
	}
}

func (q *quiet) Close() error { return nil }

// stopNotice says what being stopped means, and what a signal does now.
func stopNotice(e runner.Event) string {
	return Clean(e.Error) + ": " + joined(", ", "nothing new starts", "requests in flight may end", Clean(e.Message)) + "; ^C now aborts at once"
}

// sink is an output that is given up at its first error.
type sink struct {
	out io.Writer
	err error
}

func (s *sink) write(b []byte) {
	if s.err == nil && len(b) > 0 {
		_, s.err = s.out.Write(b)
	}
}

// fault is the error worth telling: that a reader went away is not.
func (s *sink) fault() error {
	if errors.Is(s.err, syscall.EPIPE) || errors.Is(s.err, io.ErrClosedPipe) {
		return nil
	}
	return s.err
}
