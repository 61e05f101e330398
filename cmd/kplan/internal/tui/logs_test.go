package tui

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/runner"
)

// Below a step at work stands what its pods say once they are in trouble; the log's own
// view has all.
func TestLogsBelowSteps(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const web, says = "Deployment/demo/web", "health check failed"
	events := []runner.Event{
		{Type: runner.TypePlan, Version: runner.EventVersion, Plan: "p", Steps: []runner.StepInfo{{Name: "s", Kind: "helm"}}},
		{Type: runner.TypeState, Step: "s", State: runner.StateRunning, Attempt: 1, Attempts: 1},
		{Type: runner.TypeProgress, Step: "s", Object: web, Message: web + ": 0/1"},
		{Type: runner.TypeLog, Step: "s", Object: "Pod/demo/web-1 container c", Of: web, Message: says},
	}
	for i := range events {
		events[i].Seq, events[i].Time = i+1, start.Add(time.Duration(i)*time.Second)
	}
	for _, tt := range []struct {
		logs          ui.Logs
		early, stalls bool
	}{{ui.LogsTrouble, false, true}, {"", false, true}, {ui.LogsAll, true, true}, {ui.LogsNone, false, false}} {
		m := NewModel(Options{Logs: tt.logs})
		m.Resize(80, 24)
		m.Tick(start.Add(10*time.Second), events...)
		require.Equal(t, tt.early, strings.Contains(m.View(), says), "early, logs %q", tt.logs)
		m.Tick(start.Add(40 * time.Second))
		require.Equal(t, tt.stalls, strings.Contains(m.View(), says), "stalled, logs %q", tt.logs)
		press(m, "4")
		require.True(t, strings.Contains(m.View(), says), "its own view, logs %q", tt.logs)
	}
}
