//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// machine is what would name the machine that a run was recorded on.
var machine = regexp.MustCompile(`/(root|home|tmp|work|var|Users)/`)

// The recorded run that make tour shows is one of the lab's race, to its end.
func TestTour(t *testing.T) {
	record, err := filepath.Abs("../../lab/race/run.jsonl")
	require.NoError(t, err)
	text, err := os.ReadFile(record)
	require.NoError(t, err)
	require.NotRegexp(t, machine, string(text))

	code, stdout, stderr := kplan(t, nil, "replay", record, "--progress", "plain")
	require.Equal(t, []any{0, ""}, []any{code, stdout})
	require.Regexp(t, `holding    Widget/race/race-\d: webhook "mutate.race.lab.kplan.dev"`, stderr)
	require.Regexp(t, `released   \d requests held up to \d`, stderr)
	require.Regexp(t, `\nplan race succeeded in 1\ds: 1 succeeded, 1 unchanged\n$`, stderr)

	s := newTerminal(t, 100, 30, fmt.Sprintf(guardedScript, "kplan replay "+record))
	s.shows("race", "guarded", "[1 steps]")
	s.press("q")
	s.restored(0)
}
