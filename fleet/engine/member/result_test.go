package member

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/runner"
)

// A result fits into a pod's termination message, whatever an error says.
func TestResultsAreShort(t *testing.T) {
	for _, char := range []string{"x", "ä", "\"", "<", "\x01", "\xff", "😀"} {
		long := strings.Repeat(char, 20_000)
		r := &fleet.Result{State: fleet.Failed, Error: long, Hint: long, Cause: &fleet.Cause{Class: fleet.StepFailed, Step: "s", Text: long[:600]}}
		fit(r)
		b, err := json.Marshal(r)
		require.NoError(t, err)
		require.LessOrEqual(t, len(b), MaxResult, "%q", char)
		require.NotEmpty(t, r.Error)
	}
}

func memberFor(events ...runner.Event) *member {
	m := &member{Config: &Config{}, Run: Run{Cluster: fleet.Cluster{Name: "prod/east"}, ID: "r1"}, result: &fleet.Result{}, hide: func(s string) string { return strings.ReplaceAll(s, "s3cr3t", "(sensitive)") }}
	for i, e := range events {
		e.Seq, e.Time = i+1, time.Unix(int64(i), 0)
		m.fold.Observe(e)
	}
	return m
}

func entered(step string, s runner.State) runner.Event {
	return runner.Event{Type: runner.TypeState, Step: step, State: s}
}

var twoSteps = runner.Event{Type: runner.TypePlan, Steps: []runner.StepInfo{{Name: "a", Kind: "apply"}, {Name: "w", Kind: "wait"}}}

// The first step that failed says why.
func TestFirstFailure(t *testing.T) {
	m := memberFor(twoSteps, entered("a", runner.StateRunning), entered("w", runner.StateFailed), entered("a", runner.StateFailed))

	m.conclude(t.Context(), nil, errors.Join(&runner.StepError{Step: "a", Err: errors.New("late")}, &runner.StepError{Step: "w", Err: runner.WithHint(errors.New("early s3cr3t\nof prod/east"), "do it")}))

	require.Equal(t, fleet.Failed, m.result.State)
	require.Equal(t, &fleet.Cause{Class: fleet.StepFailed, Step: "w", Text: "early (sensitive) of CLUSTER"}, m.result.Cause)
	require.Equal(t, "early (sensitive) of prod/east", m.result.Error)
	require.Equal(t, "do it", m.result.Hint)
}

func TestClasses(t *testing.T) {
	stoppedBy := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return ctx
	}
	lost := &ledger.LostError{Plan: "p"}
	for name, test := range map[string]struct {
		ctx   context.Context
		err   error
		state fleet.State
		class fleet.Class
	}{
		"another run has the lock": {t.Context(), &ledger.HeldError{Plan: "p"}, fleet.Failed, fleet.Locked},
		"the lock is lost":         {t.Context(), errors.Join(lost, errors.New("x")), fleet.Failed, fleet.Locked},
		"the plan has a fault":     {t.Context(), document.Diagnostics{{Message: "no such field"}}, fleet.Failed, fleet.BadPlan},
		"a timeout":                {t.Context(), &runner.TimeoutError{After: time.Second}, fleet.Failed, fleet.Timeout},
		"interrupted":              {stoppedBy(errors.New("^C")), errors.New("^C"), fleet.Cancelled, ""},
		"aborted":                  {t.Context(), runner.ErrAborted, fleet.Cancelled, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := memberFor()
			m.conclude(test.ctx, nil, test.err)
			require.Equal(t, test.state, m.result.State)
			if test.class != "" {
				require.Equal(t, test.class, m.result.Cause.Class)
			}
		})
	}
}

// Waiting changes nothing, and held time of two steps at once counts once.
func TestUnchangedAndHeld(t *testing.T) {
	m := memberFor(twoSteps, entered("a", runner.StateUnchanged), entered("w", runner.StateSucceeded))
	m.conclude(t.Context(), nil, nil)
	require.Equal(t, fleet.Unchanged, m.result.State)

	m = memberFor(twoSteps, entered("a", runner.StateHolding), entered("w", runner.StateHolding), entered("a", runner.StateRunning), entered("w", runner.StateSucceeded), entered("a", runner.StateSucceeded))
	m.conclude(t.Context(), nil, nil)
	require.Equal(t, fleet.Succeeded, m.result.State)
	require.InDelta(t, 3, m.result.HeldSeconds, 0.001)
}
