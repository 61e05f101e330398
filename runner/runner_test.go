package runner_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

var update = flag.Bool("update", false, "write the goldens anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTraces plays every scenario in testdata/traces and compares the whole
// event stream, the error and, where there is one, the summary.
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/traces/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playTrace(t, file) })
		})
	}
}

func playTrace(t *testing.T, file string) {
	t.Helper()
	golden, err := txtar.ParseFile(file)
	require.NoError(t, err)
	var (
		drawn  trace
		events recorder
	)
	exec, runErr := parseScenario(t, string(golden.Files[0].Data)).run(t, &drawn, &events)
	errText := "none\n"
	if runErr != nil {
		errText = runErr.Error() + "\n"
	}
	got := &txtar.Archive{Comment: golden.Comment, Files: []txtar.File{
		golden.Files[0],
		{Name: "events", Data: []byte(strings.Join(drawn.lines, "\n") + "\n")},
		{Name: "error", Data: []byte(errText)},
	}}
	if len(golden.Files) > 3 { // the scenario wants its summary checked
		summary, err := json.MarshalIndent(exec, "", "  ")
		require.NoError(t, err)
		got.Files = append(got.Files, txtar.File{Name: "summary", Data: append(summary, '\n')})
	}
	if *update {
		require.NoError(t, os.WriteFile(file, txtar.Format(got), 0o644))
	} else {
		require.Equal(t, string(txtar.Format(golden)), string(txtar.Format(got)))
	}
	require.Equal(t, exec, replay(t, events), "the fold of the recorded stream is what Run returned")
}

// replay folds events as a reader of their JSON form would.
func replay(t *testing.T, events []runner.Event) *runner.Execution {
	t.Helper()
	x := &runner.Execution{}
	for _, e := range events {
		b, err := json.Marshal(e)
		require.NoError(t, err)
		var back runner.Event
		require.NoError(t, json.Unmarshal(b, &back))
		x.Apply(back)
	}
	return x
}

// action is an Action made of a function.
type action func(context.Context, runner.Reporter) error

func (f action) Run(ctx context.Context, r runner.Reporter) error { return f(ctx, r) }

func always(f action) runner.Resolver {
	return func(plan.Step) (runner.Action, error) { return f, nil }
}

func steps(names ...string) *plan.Plan {
	p := &plan.Plan{}
	for _, n := range names {
		p.Steps = append(p.Steps, plan.Step{Name: n, Wait: &plan.Wait{}})
	}
	return p
}

func TestReportAfterRunIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late runner.Reporter
		r := runner.Runner{Resolve: always(func(_ context.Context, r runner.Reporter) error {
			late = r
			return nil
		})}
		x, err := r.Run(t.Context(), steps("a"))
		require.NoError(t, err)
		before := x.Last()
		time.Sleep(time.Second)
		for range 1000 { // more than the inbox holds: it must not block either
			late.Report(runner.Report{Type: runner.TypeProgress, Message: "too late"})
		}
		require.Equal(t, before, x.Last())
		require.Empty(t, x.Step("a").Message)
	})
}

func TestActionSeesTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		stop := &runner.Interrupted{Signal: os.Interrupt}
		time.AfterFunc(time.Second, func() { cancel(stop) })
		var seen error
		r := runner.Runner{Resolve: always(func(ctx context.Context, _ runner.Reporter) error {
			<-ctx.Done()
			seen = context.Cause(ctx)
			return seen
		})}
		_, err := r.Run(ctx, steps("a"))
		require.ErrorIs(t, err, stop)
		require.Equal(t, stop, seen)
	})
}

func TestStepTimeoutIsATimeoutError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := steps("a")
		bound := plan.Duration(3 * time.Second)
		p.Steps[0].Timeout = &bound
		r := runner.Runner{Resolve: always(func(ctx context.Context, _ runner.Reporter) error {
			<-ctx.Done()
			return ctx.Err() // a careless action: not the cause
		})}
		_, err := r.Run(t.Context(), p)
		var timeout *runner.TimeoutError
		require.ErrorAs(t, err, &timeout)
		require.Equal(t, 3*time.Second, timeout.After)
		var step *runner.StepError
		require.ErrorAs(t, err, &step)
		require.Equal(t, "a", step.Step)
	})
}

func TestStepsOfTheSameNameAreRefused(t *testing.T) {
	_, err := (&runner.Runner{}).Run(t.Context(), steps("a", "a"))
	require.EqualError(t, err, `two steps are called "a"`)
}

func TestAPlanWithoutStepsSucceeds(t *testing.T) {
	var events recorder
	x, err := (&runner.Runner{Observers: []runner.Observer{&events}}).Run(t.Context(), steps())
	require.NoError(t, err)
	require.Equal(t, runner.StateSucceeded, x.State())
	require.Len(t, events, 2)
}

// Guards are told once they are found; whoever looks for them is stopped and
// waited for when the run ends before, unless that was aborted.
func TestGuards(t *testing.T) {
	guards := []runner.Guard{{Step: "a", By: "a", Webhooks: []string{"v"}, Objects: 2}}
	nap := always(func(context.Context, runner.Reporter) error {
		time.Sleep(2 * time.Second)
		return nil
	})
	t.Run("found", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var events recorder
			r := runner.Runner{Resolve: nap, Observers: []runner.Observer{&events}, Guards: func(context.Context) []runner.Guard {
				time.Sleep(time.Second)
				return guards
			}}
			x, err := r.Run(t.Context(), steps("a"))
			require.NoError(t, err)
			require.Equal(t, guards, x.Guards())
			require.Equal(t, runner.TypeGuards, events[2].Type)
			require.Equal(t, x, replay(t, events))
		})
	})
	t.Run("not in time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			stopped := false
			r := runner.Runner{Resolve: nap, Guards: func(ctx context.Context) []runner.Guard {
				<-ctx.Done()
				time.Sleep(time.Second)
				stopped = true
				return guards
			}}
			x, err := r.Run(t.Context(), steps("a"))
			require.NoError(t, err)
			require.Empty(t, x.Guards())
			require.True(t, stopped)
		})
	})
	t.Run("aborted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			abort := make(chan struct{})
			time.AfterFunc(time.Second, func() { close(abort) })
			r := runner.Runner{Resolve: nap, Abort: abort, Guards: func(context.Context) []runner.Guard {
				time.Sleep(time.Hour) // whatever its context says
				return guards
			}}
			start := time.Now()
			_, err := r.Run(t.Context(), steps("a"))
			require.ErrorIs(t, err, runner.ErrAborted)
			require.Equal(t, time.Second, time.Since(start))
			time.Sleep(time.Hour) // the bubble waits for what was left behind
		})
	})
}

// What is fetched ahead of the steps is told as it comes; whoever fetches is stopped when
// the run is over, and waited for.
func TestPrepare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events recorder
		stopped := false
		nap := always(func(context.Context, runner.Reporter) error {
			time.Sleep(2 * time.Second)
			return nil
		})
		r := runner.Runner{Resolve: nap, Observers: []runner.Observer{&events}, Prepare: func(ctx context.Context, to runner.Reporter) {
			time.Sleep(time.Second)
			to.Report(runner.Report{Message: "fetched x", Done: 1, Total: 2})
			<-ctx.Done()
			to.Report(runner.Report{Message: "too late", Done: 2, Total: 2})
			stopped = true
		}}
		x, err := r.Run(t.Context(), steps("a"))
		require.NoError(t, err)
		require.True(t, stopped)
		require.Equal(t, runner.TypeFetch, events[2].Type)
		require.Equal(t, "fetched x", events[2].Message)
		done, total := x.Fetching()
		require.Equal(t, []int{1, 2}, []int{done, total})
		require.Equal(t, x, replay(t, events))
	})
}

// What was found before the run is told as it begins, what is found beside its first steps
// as it comes. Whoever looks is stopped when the run is over, and waited for.
func TestFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events recorder
		stopped := false
		nap := always(func(context.Context, runner.Reporter) error {
			time.Sleep(2 * time.Second)
			return nil
		})
		of := func(message string) runner.Found {
			return runner.Found{Finding: runner.Finding{Code: "c", Severity: "warning"}, Step: "a", Message: message}
		}
		r := runner.Runner{Resolve: nap, Observers: []runner.Observer{&events}, Findings: []runner.Found{of("before")}, Look: func(ctx context.Context, found func(runner.Found)) {
			time.Sleep(time.Second)
			found(of("beside"))
			<-ctx.Done()
			found(of("too late"))
			stopped = true
		}}
		x, err := r.Run(t.Context(), steps("a"))
		require.NoError(t, err)
		require.True(t, stopped)
		require.Len(t, x.Findings(), 2)
		require.Equal(t, "before", events[1].Message)
		require.Equal(t, runner.TypeFinding, events[3].Type)
		require.Equal(t, "beside", events[3].Message)
		require.Equal(t, "c", events[3].Finding.Code)
		require.Equal(t, x, replay(t, events))
	})
}

// Guards that are found when their step has ended, or holds a request, are marked.
func TestLateGuards(t *testing.T) {
	guards := []runner.Guard{{Step: "ended", By: "ended"}, {Step: "holds", By: "ended"}, {Step: "waits", By: "ended"}}
	synctest.Test(t, func(t *testing.T) {
		var events recorder
		r := runner.Runner{
			Observers: []runner.Observer{&events},
			Resolve: func(s plan.Step) (runner.Action, error) {
				return action(func(_ context.Context, r runner.Reporter) error {
					if s.Name == "holds" {
						r.Report(runner.Report{Type: runner.TypeHeld, Webhook: &runner.Webhook{Name: "v"}})
						time.Sleep(2 * time.Second)
					}
					return nil
				}), nil
			},
			Guards: func(context.Context) []runner.Guard {
				time.Sleep(time.Second)
				return guards
			},
		}
		p := steps("ended", "holds")
		p.Steps = append(p.Steps, plan.Step{Name: "waits", Needs: plan.Needs("holds")})
		x, err := r.Run(t.Context(), p)
		require.NoError(t, err)
		for _, g := range x.Guards() {
			require.Equal(t, g.Step != "waits", g.Late, g.Step)
			require.False(t, guards[0].Late, "the finder's own are left alone")
		}
	})
}

func TestGuardSaysWhatItGuards(t *testing.T) {
	g := runner.Guard{Step: "rules", By: "operator", Webhooks: []string{"a", "b"}, Objects: 3}
	require.Equal(t, "webhooks of operator judge 3 objects: a, b", g.String())
	g.Step, g.Objects, g.Maybe = "operator", 1, true
	require.Equal(t, "its own webhooks may judge 1 object: a, b", g.String())
}
