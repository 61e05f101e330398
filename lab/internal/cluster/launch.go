package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

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
	err := wait.PollUntilContextTimeout(ctx, 25*time.Millisecond, readyTimeout, true, func(ctx context.Context) (bool, error) {
		last = look(ctx)
		return last == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%s is not ready after %s: %w", what, readyTimeout, last)
}

// lineWriter passes whole lines on to say.
type lineWriter Progress

func (w lineWriter) Write(data []byte) (int, error) {
	for line := range strings.Lines(string(data)) {
		w("%s", strings.TrimRight(line, "\n"))
	}
	return len(data), nil
}

// Stop stops a component: it is asked to end, and killed after grace. It is
// no error if it is not running.
func (l *Lab) Stop(ctx context.Context, component string, grace time.Duration) error {
	if component == containerd {
		return &UsageError{"containerd cannot be stopped alone: the lab's mounts live and die with it (use down and up)"}
	}
	r, err := process.Find(l.records(), component)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.Stop(ctx, grace)
}

// Start starts a component that was stopped or died, and waits until it is
// ready; it is no error if it runs.
func (l *Lab) Start(ctx context.Context, component string) error {
	r, err := process.Find(l.records(), component)
	if err != nil {
		return err
	}
	if r.Alive() {
		return nil
	}
	launch, ctx := newLauncher(ctx, l)
	defer launch.stopWatching()
	if err := launch.start(component); err != nil {
		return err
	}
	if component != apiserver && component != etcd && component != serve {
		return nil
	}
	client, err := l.client()
	if err != nil {
		return err
	}
	if err := client.await(ctx, component, "/readyz"); err != nil {
		return launch.cause(err)
	}
	return nil
}
