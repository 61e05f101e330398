package ui

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/actions"
	"github.com/kplan-dev/kplan/runner"
)

// ours are the commands that kplan itself writes.
var ours = regexp.MustCompile(`^::(group::.+|endgroup::|(error|warning|notice) .*::.*)$`)

// TestGitHub reads the output of each recorded run as the runner of GitHub Actions
// does.
func TestGitHub(t *testing.T) {
	files, err := filepath.Glob("testdata/github/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			events := readEvents(t, filepath.Join("testdata/events", strings.TrimSuffix(filepath.Base(file), ".txt")+".jsonl"))
			var out bytes.Buffer
			show(t, newGitHub(&out, Options{}), events)
			var x runner.Execution
			for _, e := range events {
				x.Apply(e)
			}
			open, groups, annotations := false, 0, map[string]int{}
			for line := range strings.Lines(out.String()) {
				line = strings.TrimSuffix(line, "\n")
				require.NotContains(t, line, "##[")
				if !strings.HasPrefix(strings.TrimSpace(line), "::") {
					continue
				}
				require.Regexp(t, ours, line)
				switch word, _, _ := strings.Cut(strings.Fields(line[2:])[0], "::"); word {
				case "group":
					require.False(t, open, "groups do not nest")
					open = true
					groups++
				case "endgroup":
					require.True(t, open)
					open = false
				default:
					annotations[word]++
				}
			}
			require.False(t, open)
			ran := 0
			for _, s := range x.Steps() {
				if s.Attempt > 0 {
					ran++
				}
			}
			require.Equal(t, ran, groups, "one group for each step that ran")
			for level, n := range annotations {
				require.LessOrEqual(t, n, actions.MaxAnnotations, level)
			}
			require.Equal(t, len(x.Failed()) > 0 || x.Err() != "", annotations["error"] > 0, "a run that failed says so")
		})
	}
}

// TestGitHubLongGroup bounds what one step may say.
func TestGitHubLongGroup(t *testing.T) {
	now := time.Unix(0, 0)
	var out bytes.Buffer
	g := newGitHub(&out, Options{})
	g.Draw(runner.Event{Type: runner.TypePlan, Time: now, Steps: []runner.StepInfo{{Name: "a"}}})
	g.Draw(runner.Event{Type: runner.TypeState, Step: "a", State: runner.StateRunning, Attempt: 1, Attempts: 1, Time: now})
	for i := range 3 * mostLines {
		g.Draw(runner.Event{Type: runner.TypeLog, Step: "a", Time: now, Message: fmt.Sprint("line ", i)})
	}
	g.Draw(runner.Event{Type: runner.TypeState, Step: "a", State: runner.StateFailed, Error: "no", Attempt: 1, Attempts: 1, Time: now})
	require.NoError(t, g.Close())
	require.Contains(t, out.String(), fmt.Sprintf("\n… %d lines left out\n::endgroup::\n", 2*mostLines+1))
	require.Contains(t, out.String(), "failed     after 0ms, attempt 1/1: no\n", "the end is the group's title")
}
