package report

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/runner"
)

// TestFiles writes what is known when it is closed, one report after another's
// failure too.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "r.json")
	r := &Files{Files: []File{{Kind: HTML, Path: filepath.Join(dir, "gone", "r.html")}, {Kind: JSON, Path: good}}}
	require.NoError(t, r.Close(), "a run that did not begin has no report")
	require.NoFileExists(t, good)
	r.Observe(runner.Event{Seq: 1, Time: time.Now(), Type: runner.TypePlan, Plan: "p", Steps: []runner.StepInfo{{Name: "a"}}})
	require.ErrorContains(t, r.Close(), "--report html="+filepath.Join(dir, "gone", "r.html"))
	b, err := os.ReadFile(good)
	require.NoError(t, err)
	require.Contains(t, string(b), `"state": "running"`)
}
