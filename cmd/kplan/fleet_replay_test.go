//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// fleetRecord makes a folder as that of a fleet's run, with the recorded run of a name and the
// own run of one cluster, and returns its file of events.
func fleetRecord(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	copyFile(t, filepath.Join("internal/fleetview/testdata/events", name+".jsonl"), filepath.Join(dir, "events.jsonl"))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "clusters"), 0o700))
	copyFile(t, filepath.Join(recordings, "race.jsonl"), filepath.Join(dir, "clusters", "prod%2Feast-01.jsonl"))
	return filepath.Join(dir, "events.jsonl")
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, b, 0o600))
}

// TestFleetDisplay shows a recorded run of a fleet on terminals, and one cluster's own run.
func TestFleetDisplay(t *testing.T) {
	record := fleetRecord(t, "resumed")
	for _, size := range [][2]int{{60, 20}, {100, 30}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			t.Parallel()
			s := newTerminal(t, size[0], size[1], fmt.Sprintf(guardedScript, "kplan fleet replay --speed 0 "+record))
			screen := s.shows("[60 clusters in 3 waves]", "✔ succeeded", "✔ canary succeeded")
			require.Len(t, strings.Split(strings.TrimRight(screen, "\n"), "\n"), size[1])
			s.press("Down", "Down")
			s.shows("[≡]", "prod/east-01  ≡ unchanged")
			s.press("Right")
			s.shows("[✔]", "prod/north-01  ✔ succeeded")
			s.press("Enter")
			s.shows("nothing is told of the plan on this cluster yet", "Esc back")
			s.press("Escape")
			s.shows("[60 clusters in 3 waves]")
			s.press("Left", "Enter")
			s.shows("prod/east-01: race", "[1 steps]", "succeeded race")
			s.press("3")
			s.shows("[3 ", "gadget.lab.kplan.dev")
			s.press("Escape")
			s.shows("[60 clusters in 3 waves]")
			s.press("/", "w", "e", "s", "t", "Enter")
			s.shows("filter: west", "prod/west-01")
			s.press("Escape")
			s.shows("canary succeeded")
			s.press("?")
			s.shows("this help", "help")
			s.press("q")
			s.resize(120, 40)
			s.until("it fills the terminal", func(screen string) bool {
				lines := strings.Split(strings.TrimRight(screen, "\n"), "\n")
				return len(lines) == 40 && utf8.RuneCountInString(lines[2]) == 120
			})
			s.press("q")
			require.Contains(t, s.restored(0), "fleet edge succeeded in")
		})
	}
}

// TestFleetDisplayPlain shows a fleet without colours and signs beyond ASCII.
func TestFleetDisplayPlain(t *testing.T) {
	record := fleetRecord(t, "resumed")
	s := newTerminal(t, 60, 20, fmt.Sprintf(guardedScript, "kplan fleet replay --speed 0 "+record), "NO_COLOR=1", "LC_ALL=C")
	screen := s.shows("+ canary succeeded", "= + + + = +")
	require.Equal(t, len(screen), utf8.RuneCountInString(screen))
	require.NotContains(t, s.tmux("capture-pane", "-p", "-e"), "\x1b[")
	s.press("q")
	s.restored(0)
}

// TestFleetReplay writes recorded runs of fleets in other ways, and reports of them.
func TestFleetReplay(t *testing.T) {
	record := fleetRecord(t, "resumed")
	cmd := command(t, "fleet", "replay", record, "--progress", "json")
	var out bytes.Buffer
	cmd.Stderr = &out
	require.NoError(t, cmd.Run())
	want, err := os.ReadFile(record)
	require.NoError(t, err)
	require.Equal(t, string(want), out.String())

	dir := filepath.Join(t.TempDir(), "report")
	err = command(t, "fleet", "replay", record, "--report", "html="+dir, "--report", "junit="+dir+".xml", "--report", "json="+dir+".json", "--report", "markdown="+dir+".md").Run()
	require.NoError(t, err)
	for file, has := range map[string]string{
		dir + "/index.html": `href="clusters/prod-east-01.html"`, dir + "/clusters/prod-east-01.html": "fleet edge",
		dir + ".xml": `<testsuite name="prod/east-01"`, dir + ".json": `"digest": "sha256:0d3f1c2e"`, dir + ".md": "## ✓ Fleet `edge`: succeeded",
	} {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(b), has, file)
	}
	for args, want := range map[string]string{
		"none.jsonl":                                 "no such file",
		record + " --report csv=x":                   `there is no report kind "csv" of a fleet`,
		record + " --speed -1":                       "--speed must not be negative",
		record + " --report json=x --report junit=x": "are the same file",
		recordings + "/race.jsonl":                   "is not the first event of a fleet's run",
	} {
		cmd := command(t, append([]string{"fleet", "replay"}, strings.Fields(args)...)...)
		out, err := cmd.CombinedOutput()
		var ended *exec.ExitError
		require.ErrorAs(t, err, &ended)
		require.Equal(t, 2, ended.ExitCode(), string(out))
		require.Regexp(t, regexp.QuoteMeta(want), string(out))
	}
}
