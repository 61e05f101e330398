package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/lab/internal/process"
)

// readyTimeout is how long one part may take to become ready. Two cores that
// compile something at the same time make it ten times slower than usual.
const readyTimeout = 3 * time.Minute

// DiedError says that a component ended while the lab was being started.
type DiedError struct {
	Component string
	Err       error
	Log       string // its last lines
}

func (e *DiedError) Error() string {
	return fmt.Sprintf("%s died: %v; its last lines:\n  %s", e.Component, e.Err, strings.ReplaceAll(e.Log, "\n", "\n  "))
}

func (e *DiedError) Unwrap() error { return e.Err }

// launcher starts components and gives up as soon as one of them dies.
type launcher struct {
	lab    *Lab
	ctx    context.Context // done when a component died
	cancel context.CancelCauseFunc
}

// newLauncher returns a context that ends, with a DiedError as its cause,
// when a component dies.
func newLauncher(ctx context.Context, l *Lab) (*launcher, context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	return &launcher{lab: l, ctx: ctx, cancel: cancel}, ctx
}

// stopWatching lets the components live on, and die unnoticed.
func (s *launcher) stopWatching() { s.cancel(errors.New("the lab is up")) }

// cause prefers the death of a component over what came of it.
func (s *launcher) cause(err error) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return err
}

func (s *launcher) start(names ...string) error {
	for _, name := range names {
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		spec, err := s.lab.spec(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		child, err := process.Start(spec, s.lab.records())
		if err != nil {
			return err
		}
		go func() {
			select {
			case <-child.Done():
				s.cancel(&DiedError{Component: name, Err: child.Err(), Log: process.Tail(spec.Log, 12)})
			case <-s.ctx.Done():
			}
		}()
	}
	return nil
}

// await polls until look succeeds.
func await(ctx context.Context, what string, look func(context.Context) error) error {
	var last error
	late := fmt.Errorf("%s is not ready after %s", what, readyTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, late)
	defer cancel()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		if last = look(ctx); last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, late) {
				return cause
			}
			return fmt.Errorf("%w: %w", late, last)
		case <-tick.C:
		}
	}
}

// lineWriter passes whole lines on to say.
type lineWriter Progress

func (w lineWriter) Write(data []byte) (int, error) {
	for line := range strings.Lines(string(data)) {
		w("%s", strings.TrimRight(line, "\n"))
	}
	return len(data), nil
}
