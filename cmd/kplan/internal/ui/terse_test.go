package ui

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// What kplan hold shows of recorded runs: one whose requests were held, one that
// waited in vain, and one that held nothing.
func TestTerse(t *testing.T) {
	files, err := filepath.Glob("testdata/terse/*.jsonl")
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			events := readEvents(t, file)
			var out bytes.Buffer
			show(t, newTerse(&out, Options{}), events)
			golden(t, filepath.Join("terse", name+".txt"), out.Bytes())
			require.Equal(t, name == "nothing", out.Len() == 0)
			for line := range strings.Lines(out.String()) {
				require.True(t, strings.HasPrefix(line, "kplan: "), "it cannot be taken for the command's: %q", line)
			}

			var coloured bytes.Buffer
			show(t, newTerse(&coloured, Options{Colour: true}), events)
			require.Equal(t, out.String(), words.Clean(coloured.String()), "nothing is said by colour alone")

			r := NewTerse(&coloured, Options{})
			coloured.Reset()
			for _, e := range events {
				r.Observe(e)
			}
			require.NoError(t, r.Close())
			require.Equal(t, strings.Count(out.String(), "released"), strings.Count(coloured.String(), "released"))
		})
	}
}

// What goes on for long is said again, and kplan's own log at once.
func TestTerseReminds(t *testing.T) {
	events := readEvents(t, "testdata/terse/in-vain.jsonl")
	var out bytes.Buffer
	d := newTerse(&out, Options{})
	for _, e := range events {
		if e.Type == runner.TypeReleased {
			break
		}
		d.Draw(e)
	}
	d.Flush()
	out.Reset()
	last := events[len(events)-1].Time
	d.Tick(last.Add(reminder))
	d.Tick(last.Add(reminder + 1))
	d.Draw(runner.Event{Type: runner.TypeLog, Step: "helm", Message: "one\ntwo", Time: last})
	d.Flush()
	require.Equal(t, 3, strings.Count(out.String(), "kplan: "))
	require.Contains(t, out.String(), "kplan: still holding")
	require.Contains(t, out.String(), "kplan: one\nkplan: two\n")
}
