package examples_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// requireBrief wants that what plain output says of a healthy run is soon read: at most
// 60 lines, a line for each step, and no log of a pod that was on its way. How often it
// is told that a step is still at work depends on how slow the machine is: still counts
// that beside the lines. logs is how many logs of pods there were.
func requireBrief(t *testing.T, events []runner.Event) (lines, still, logs int) {
	t.Helper()
	record := filepath.Join(t.TempDir(), "run.jsonl")
	f, err := os.Create(record)
	require.NoError(t, err)
	for _, e := range events {
		require.NoError(t, json.NewEncoder(f).Encode(e))
	}
	require.NoError(t, f.Close())
	binary := labtest.Build(t, "../cmd/kplan")
	plain := func(flags ...string) string {
		cmd := exec.CommandContext(t.Context(), binary, append([]string{"replay", record, "--progress", "plain"}, flags...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	brief, all := plain(), plain("--logs", "all")
	still = len(regexp.MustCompile(`(?m)^\S+ +(\S+ +)?(running|holding) +still `).FindAllString(brief, -1))
	lines = strings.Count(brief, "\n") - still
	t.Logf("%d lines and %d of steps still at work; %d with all logs", lines, still, strings.Count(all, "\n"))
	assert.LessOrEqual(t, lines, 60, brief)
	for _, s := range events[0].Steps {
		assert.Regexp(t, `(?m)^\d\d:\d\d:\d\d  `+regexp.QuoteMeta(s.Name)+` +(succeeded|unchanged) `, brief)
	}
	for _, e := range events {
		if e.Type == runner.TypeLog && strings.Contains(e.Object, " container ") {
			first, _, _ := strings.Cut(e.Message, "\n")
			assert.Contains(t, all, first)
			assert.NotContains(t, brief, first)
			logs++
		}
	}
	return lines, still, logs
}
