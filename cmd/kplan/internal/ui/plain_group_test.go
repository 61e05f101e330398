package ui

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/pump"
	"github.com/kplan-dev/kplan/runner"
)

// A step tells once that it waits for its concurrency group, and at its end how long it
// did.
func TestPlainTellsOfGroups(t *testing.T) {
	state := func(step string, s runner.State, attempt int) runner.Event {
		return runner.Event{Type: runner.TypeState, Step: step, State: s, Attempt: attempt, Attempts: attempt}
	}
	waits := runner.Event{Type: runner.TypeState, Step: "b", State: runner.StatePending, WaitsFor: "a", Message: "waits for group repo (step a)"}
	all := []runner.Event{
		{Type: runner.TypePlan, Version: runner.EventVersion, Plan: "p", Steps: []runner.StepInfo{
			{Name: "a", Kind: "helm", ConcurrencyGroup: "repo"}, {Name: "b", Kind: "helm", ConcurrencyGroup: "repo"},
		}},
		state("a", runner.StateRunning, 1), waits, state("a", runner.StateSucceeded, 1),
		state("b", runner.StateRunning, 1), state("b", runner.StateSucceeded, 1),
		{Type: runner.TypeDone, State: runner.StateSucceeded},
	}
	for i := range all {
		all[i].Seq, all[i].Time = i+1, time.Date(2026, 1, 1, 12, 0, 2*i, 0, time.UTC)
	}
	for name, d := range map[string]func(*bytes.Buffer) pump.Drawer[runner.Event]{
		"plain":  func(b *bytes.Buffer) pump.Drawer[runner.Event] { return newPlain(b, Options{}) },
		"github": func(b *bytes.Buffer) pump.Drawer[runner.Event] { return newGitHub(b, Options{}) },
	} {
		var out bytes.Buffer
		show(t, d(&out), all)
		for _, line := range []string{
			"12:00:04  b  pending    waits for group repo (step a)\n",
			"12:00:10  b  succeeded  2.0s, waited 4.0s for group repo",
			"b     succeeded  1/1      -         2.0s  waited 4.0s for group repo\n",
		} {
			require.Contains(t, out.String(), line, name)
		}
	}
}
