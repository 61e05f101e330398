package report

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/runner"
)

// summaryOf shows a run of one step that failed, and gives what went to stderr.
func summaryOf(t *testing.T, file string) string {
	t.Helper()
	var stderr bytes.Buffer
	r := &Summarized{Renderer: ui.New(&stderr, ui.GitHub, ui.Options{Actions: true}), File: file, Warnings: &stderr}
	now := time.Now()
	for i, e := range []runner.Event{
		{Type: runner.TypePlan, Version: 1, Plan: "demo", Steps: []runner.StepInfo{{Name: "web", Kind: "helm", File: "p.yaml", Line: 7}}},
		{Type: runner.TypeState, Step: "web", State: runner.StateRunning, Attempt: 1, Attempts: 1},
		{Type: runner.TypeState, Step: "web", State: runner.StateFailed, Attempt: 1, Attempts: 1, Error: "chart not found"},
		{Type: runner.TypeDone, State: runner.StateFailed, Counts: map[runner.State]int{runner.StateFailed: 1}},
	} {
		e.Seq, e.Time = i+1, now
		r.Observe(e)
	}
	require.NoError(t, r.Close(), "a summary never fails a run")
	return stderr.String()
}

// The run is added to what others wrote into the summary.
func TestStepSummary(t *testing.T) {
	file := filepath.Join(t.TempDir(), "summary.md")
	require.NoError(t, os.WriteFile(file, []byte("# of others"), 0o600))
	out := summaryOf(t, file)
	require.Contains(t, out, "::error file=p.yaml,line=7,")
	require.NotContains(t, out, "::warning")
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Regexp(t, `(?s)^# of others\n\n.*demo.*web.*chart not found`, string(b))

	once := len(b)
	summaryOf(t, file)
	b, err = os.ReadFile(file)
	require.NoError(t, err)
	require.Greater(t, len(b), 2*once-100, "a second run is added too")
}

// A file that is full, or cannot be written, is a warning.
func TestNoStepSummary(t *testing.T) {
	file := filepath.Join(t.TempDir(), "summary.md")
	full := bytes.Repeat([]byte("x"), MarkdownLimit-100)
	require.NoError(t, os.WriteFile(file, full, 0o600))
	require.Contains(t, summaryOf(t, file), "\n::warning title=kplan%3A no summary::GITHUB_STEP_SUMMARY: what others wrote leaves no room")
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, full, b)

	require.Contains(t, summaryOf(t, filepath.Join(file, "no", "folder")), "\n::warning title=kplan%3A no summary::GITHUB_STEP_SUMMARY: open ")
}

// The summary keeps within its limit, what others wrote included.
func TestStepSummaryLimit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "summary.md")
	require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte("x"), MarkdownLimit-leastSummary-10), 0o600))
	require.NotContains(t, summaryOf(t, file), "::warning")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size(), int64(MarkdownLimit))
}
