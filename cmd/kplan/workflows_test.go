package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// pinned is what is of the repository itself, or else an action by its commit, with the
// version that it had.
var pinned = regexp.MustCompile(`^\s*(- )?uses: (\./(\.github/workflows/[\w-]+\.yml)?|[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*)$`)

// Workflows run what was looked at: each action is named by its commit, for a tag can be
// moved. Their tokens may nothing that no job asks for. The time of a job that is a
// workflow is bounded there: GitHub takes no other bound.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range append(files, "../../action.yml") {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, "uses:") {
				assert.Regexp(t, pinned, strings.TrimRight(line, "\n"), file)
			}
		}
		var workflow struct {
			Permissions map[string]string
			Jobs        map[string]struct {
				Permissions map[string]string
				Uses        string
				Timeout     int `yaml:"timeout-minutes"`
			}
		}
		require.NoError(t, yaml.Unmarshal(b, &workflow), file)
		if filepath.Base(file) == "action.yml" {
			continue
		}
		assert.Equal(t, map[string]string{}, workflow.Permissions, file)
		for name, job := range workflow.Jobs {
			assert.NotEmpty(t, job.Permissions, "%s: %s", file, name)
			if job.Uses == "" {
				assert.Positive(t, job.Timeout, "%s: %s", file, name)
			}
		}
	}
}

// What a stranger writes, such as the title of a pull request, comes to a shell as a
// variable, and never as text of the script.
func TestNoExpressionsInScripts(t *testing.T) {
	type steps []struct{ Run string }
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	require.NoError(t, err)
	for _, file := range append(files, "../../action.yml") {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		var all struct {
			Jobs map[string]struct{ Steps steps }
			Runs struct{ Steps steps }
		}
		require.NoError(t, yaml.Unmarshal(b, &all), file)
		scripts := all.Runs.Steps
		for _, job := range all.Jobs {
			scripts = append(scripts, job.Steps...)
		}
		require.NotEmpty(t, scripts, file)
		for _, s := range scripts {
			assert.NotContains(t, s.Run, "${{", file)
		}
	}
}
