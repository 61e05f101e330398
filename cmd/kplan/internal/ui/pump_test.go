package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// runOne runs a plan of one step with a renderer.
func runOne(t *testing.T, r Renderer, f do) error {
	t.Helper()
	run := runner.Runner{
		Observers: []runner.Observer{r},
		Resolve:   func(plan.Step) (runner.Action, error) { return f, nil },
	}
	_, err := run.Run(t.Context(), &plan.Plan{Metadata: plan.Metadata{Name: "one"}, Steps: []plan.Step{step("only", 1)}})
	return err
}

// TestPlainIsNeverSilent: a step that says nothing for a minute is still seen
// to be at work, by the renderer's own clock.
func TestPlainIsNeverSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stamped{start: time.Now()}
		r := New(out, Plain, Options{})
		require.NoError(t, runOne(t, r, func(ctx context.Context, _ runner.Reporter) error { return nap(ctx, time.Minute) }))
		require.NoError(t, r.Close())
		require.Contains(t, out.String(), "only  running    still running 59s")
		last := time.Duration(0)
		for _, at := range append(out.at, time.Minute) {
			require.LessOrEqual(t, at-last, 10*time.Second)
			last = at
		}
	})
}

// stamped notes when it was written to.
type stamped struct {
	bytes.Buffer
	start time.Time
	at    []time.Duration
}

func (s *stamped) Write(b []byte) (int, error) {
	s.at = append(s.at, time.Since(s.start))
	return s.Buffer.Write(b)
}

// TestBlockedOutputDoesNotHoldUpTheRun: a terminal that is stopped by ^S, or a
// pipe that nobody reads.
func TestBlockedOutputDoesNotHoldUpTheRun(t *testing.T) {
	for _, mode := range []Mode{Plain, JSON} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := &blocked{unblock: make(chan struct{})}
				r := New(out, mode, Options{})
				require.NoError(t, runOne(t, r, func(_ context.Context, rep runner.Reporter) error {
					for i := range 5000 {
						rep.Report(runner.Report{Type: runner.TypeLog, Message: fmt.Sprintf("a line, %d", i)})
					}
					return nil
				}))
				close(out.unblock)
				require.NoError(t, r.Close())
				require.Equal(t, 5000, strings.Count(out.String(), "a line"), "and nothing is lost")
			})
		})
	}
}

// TestBlockedOutputDoesNotHoldUpAStop: what every mode tells.
func TestBlockedOutputDoesNotHoldUpAStop(t *testing.T) {
	for _, mode := range []Mode{Plain, JSON, GitHub, Quiet} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := &blocked{unblock: make(chan struct{})}
				r := New(out, mode, Options{})
				time.AfterFunc(time.Minute, func() { close(out.unblock) })
				begun := time.Now()
				r.Observe(runner.Event{Type: runner.TypePlan, Plan: "p"})
				r.Observe(runner.Event{Type: runner.TypeCancel, Error: "interrupted"})
				require.Zero(t, time.Since(begun))
				require.NoError(t, r.Close())
				require.Contains(t, out.String(), "interrupted")
			})
		})
	}
}

type blocked struct {
	bytes.Buffer
	unblock chan struct{}
}

func (b *blocked) Write(p []byte) (int, error) {
	<-b.unblock
	return b.Buffer.Write(p)
}

// broken is an output that fails.
type broken struct {
	err   error
	calls int
}

func (b *broken) Write([]byte) (int, error) {
	b.calls++
	return 0, b.err
}

func TestOutputThatFails(t *testing.T) {
	full := errors.New("no space left on device")
	for name, c := range map[string]struct{ err, want error }{
		"reader went away": {syscall.EPIPE, nil},
		"pipe is closed":   {io.ErrClosedPipe, nil},
		"disk is full":     {full, full},
	} {
		for _, mode := range []Mode{Plain, JSON} {
			t.Run(name+" "+string(mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					out := &broken{err: c.err}
					r := New(out, mode, Options{})
					require.NoError(t, runOne(t, r, func(ctx context.Context, _ runner.Reporter) error { return nap(ctx, time.Minute) }))
					require.Equal(t, c.want, r.Close())
					require.Equal(t, 1, out.calls, "it is given up at the first error")
				})
			})
		}
	}
}

func TestCloseWithoutARun(t *testing.T) {
	for _, mode := range Modes {
		var out bytes.Buffer
		require.NoError(t, New(&out, mode, Options{}).Close())
		require.Empty(t, out.String())
	}
}
