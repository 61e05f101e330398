package fleetview

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
)

var update = flag.Bool("update", false, "write the goldens anew")

func TestMain(m *testing.M) {
	time.Local = time.UTC // lines have local times
	goleak.VerifyTestMain(m)
}

// golden compares got with a file under testdata, or writes that.
func golden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// options are those of a run that takes orders.
func options() Options {
	return Options{Command: func(verb string, args ...string) string {
		return strings.Join(append([]string{"kplan fleet", verb, "edge.yaml"}, args...), " ")
	}}
}

// The recorded runs, which tests of other packages read too, and what each mode writes.
func TestRecordings(t *testing.T) {
	all := recordings()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			var events bytes.Buffer
			require.NoError(t, Play(ui.JSON, &events, Options{}, all[name]))
			golden(t, filepath.Join("events", name+".jsonl"), events.String())
			for _, mode := range []ui.Mode{ui.Plain, ui.GitHub, ui.Quiet} {
				var out, colour bytes.Buffer
				o := options()
				require.NoError(t, Play(mode, &out, o, all[name]))
				golden(t, filepath.Join(string(mode), name+".txt"), out.String())
				o.Colour = true
				require.NoError(t, Play(mode, &colour, o, all[name]))
				require.Equal(t, out.String(), words.Clean(colour.String()), "colours only repeat what the words say")
			}
		})
	}
}

// A log of a run of a thousand clusters is one that somebody reads.
func TestPlainIsBrief(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Play(ui.Plain, &out, options(), crowd(1000, time.Hour)))
	require.Less(t, strings.Count(out.String(), "\n"), 120, out.String())
}

// What a cluster says is no command to a terminal or to GitHub.
func TestHostile(t *testing.T) {
	s := scene(fleet.Limits{}, fleet.WaveInfo{Name: "a", Parallel: 1, Clusters: 1})
	const evil = "no\n::error::x ##[error]y \x1b[2J"
	s.does = func(*fleet.ClusterStatus, int) []fleet.Event {
		return []fleet.Event{
			after(time.Second, fleet.Event{State: fleet.Holding, Hold: &fleet.Hold{Webhook: evil, Service: evil, Cause: evil}}),
			end(20*time.Second, fleet.Result{State: fleet.Failed, Error: evil, Hint: evil, Cause: &fleet.Cause{Class: evil, Step: evil, Text: evil}}),
		}
	}
	s.round()
	for _, mode := range []ui.Mode{ui.Plain, ui.GitHub, ui.JSON} {
		var out bytes.Buffer
		require.NoError(t, Play(mode, &out, Options{Options: ui.Options{Actions: true}}, s.events))
		require.NotContains(t, out.String(), "\x1b")
		for line := range strings.Lines(out.String()) {
			if mode == ui.GitHub && (strings.HasPrefix(line, "::group::") || strings.HasPrefix(line, "::endgroup::") || strings.HasPrefix(line, "::error title=")) {
				continue
			}
			require.NotContains(t, line, "##[")
			require.False(t, strings.HasPrefix(strings.TrimSpace(line), "::"), line)
		}
	}
}

// A renderer that is closed before the run began writes nothing.
func TestCloseWithoutARun(t *testing.T) {
	for _, mode := range ui.Modes {
		var out bytes.Buffer
		require.NoError(t, New(mode, &out, Options{}).Close())
		require.Empty(t, out.String())
	}
}

// The renderer writes as Play does, by its own clock.
func TestRenderer(t *testing.T) {
	all := recordings()["good"]
	var out, want bytes.Buffer
	r := New(ui.JSON, &out, Options{})
	for _, e := range all {
		r.Observe(e)
		want.Write(data.Line(e))
	}
	require.NoError(t, r.Close())
	require.Equal(t, want.String(), out.String())

	out.Reset()
	a := NewStandby(&out, options())
	for _, e := range all {
		a.Observe(e)
	}
	require.NoError(t, a.Close())
	require.True(t, strings.HasPrefix(out.String(), "\nWAVE"), out.String())
}
