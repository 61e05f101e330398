package ui

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/pump"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

var update = flag.Bool("update", false, "write the goldens anew")

func TestMain(m *testing.M) {
	time.Local = time.UTC // plain lines show local times
	goleak.VerifyTestMain(m)
}

// golden compares got with a file under testdata, or writes that.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// readEvents reads a recorded stream.
func readEvents(t *testing.T, file string) []runner.Event {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var events []runner.Event
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		var e runner.Event
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		events = append(events, e)
	}
	return events
}

// show plays events to a drawer as their time passes.
func show(t *testing.T, d pump.Drawer[runner.Event], events []runner.Event) {
	t.Helper()
	now := events[0].Time
	for _, e := range events {
		for tick := now.Add(time.Second); tick.Before(e.Time); tick = tick.Add(time.Second) {
			now = tick
			d.Tick(tick)
		}
		d.Draw(e)
	}
	require.NoError(t, d.Close())
}

// TestRecordedRuns shows every recorded run in every mode.
func TestRecordedRuns(t *testing.T) {
	files, err := filepath.Glob("testdata/events/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			events := readEvents(t, file)
			for mode, make := range map[string]func(*bytes.Buffer) pump.Drawer[runner.Event]{
				"plain":  func(b *bytes.Buffer) pump.Drawer[runner.Event] { return newPlain(b, Options{}) },
				"colour": func(b *bytes.Buffer) pump.Drawer[runner.Event] { return newPlain(b, Options{Colour: true}) },
				"github": func(b *bytes.Buffer) pump.Drawer[runner.Event] { return newGitHub(b, Options{}) },
			} {
				t.Run(mode, func(t *testing.T) {
					var out bytes.Buffer
					show(t, make(&out), events)
					golden(t, filepath.Join(mode, name+".txt"), out.Bytes())
				})
			}
			t.Run("json", func(t *testing.T) {
				var out bytes.Buffer
				show(t, &jsonl{Sink: pump.Sink{Out: &out}}, events)
				want, err := os.ReadFile(file)
				require.NoError(t, err)
				require.Equal(t, string(want), out.String(), "what was recorded is written again, byte for byte")
			})
			t.Run("quiet", func(t *testing.T) {
				var out bytes.Buffer
				q := New(&out, Quiet, Options{})
				for _, e := range events {
					q.Observe(e)
				}
				require.NoError(t, q.Close())
				require.Equal(t, strings.Contains(name, "interrupt"), out.Len() > 0, "only a stop is worth a word")
			})
		})
	}
}

// TestColourRepeatsWords checks that nothing is said by colour alone.
func TestColourRepeatsWords(t *testing.T) {
	files, err := filepath.Glob("testdata/colour/*.txt")
	require.NoError(t, err)
	for _, file := range files {
		coloured, err := os.ReadFile(file)
		require.NoError(t, err)
		plain, err := os.ReadFile(filepath.Join("testdata/plain", filepath.Base(file)))
		require.NoError(t, err)
		require.Equal(t, string(plain), words.Clean(string(coloured)))
	}
}
