package tui

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

var update = flag.Bool("update", false, "write the goldens anew")

func TestMain(m *testing.M) {
	time.Local = time.UTC // logs show local times
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

const recordings = "../ui/testdata/events"

// recorded reads the events of a recorded run.
func recorded(t testing.TB, name string) []runner.Event {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(recordings, name+".jsonl"))
	require.NoError(t, err)
	var events []runner.Event
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		var e runner.Event
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		events = append(events, e)
	}
	return events
}

// names are those of all recorded runs.
func names(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(recordings + "/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".jsonl")
	}
	return files
}

var sizes = [][2]int{{40, 12}, {80, 24}, {120, 40}, {200, 60}}

// middle is a moment of a run when much goes on: two fifths of its time.
func middle(events []runner.Event) time.Time {
	first, last := events[0].Time, events[len(events)-1].Time
	return first.Add(last.Sub(first) * 2 / 5)
}

// at makes a model of what is known at a moment.
func at(o Options, events []runner.Event, now time.Time) *Model {
	m := NewModel(o)
	for i, e := range events {
		if e.Time.After(now) {
			events = events[:i]
			break
		}
	}
	m.Tick(now, events...)
	return m
}

// writeFrame writes a frame into a golden: lines that come several times in a row are
// only counted.
func writeFrame(b *strings.Builder, title, view string) {
	fmt.Fprintf(b, "== %s\n", title)
	lines := strings.Split(view, "\n")
	for i := 0; i < len(lines); {
		n := 1
		for i+n < len(lines) && lines[i+n] == lines[i] {
			n++
		}
		if lines[i] != "" {
			b.WriteString(lines[i] + "\n")
		}
		if n > 1 || lines[i] == "" {
			fmt.Fprintf(b, "(%s)\n", words.Count(n, "such line"))
		}
		i += n
	}
	b.WriteByte('\n')
}

// TestFrames draws every recorded run, in the middle and at its end, in every view
// and size.
func TestFrames(t *testing.T) {
	for _, name := range names(t) {
		t.Run(name, func(t *testing.T) {
			events := recorded(t, name)
			var plain, colour strings.Builder
			for _, moment := range []string{"middle", "end"} {
				now := events[len(events)-1].Time
				if moment == "middle" {
					now = middle(events)
				}
				for v, view := range []string{"steps", "timeline", "webhooks", "log"} {
					for _, size := range sizes {
						o := Options{Unicode: true, Version: "v1.2.3", Orders: true}
						m := at(o, events, now)
						m.Resize(size[0], size[1])
						m.Press(fmt.Sprint(v + 1))
						got := m.View()
						o.Colour = true
						c := at(o, events, now)
						c.Resize(size[0], size[1])
						c.Press(fmt.Sprint(v + 1))
						require.Equal(t, got, words.Clean(c.View()), "colours only repeat what the words say")
						fits(t, got, size[0], size[1])
						title := fmt.Sprintf("%s %s %dx%d", moment, view, size[0], size[1])
						writeFrame(&plain, title, got)
						if size[0] == 80 {
							writeFrame(&colour, title, c.View())
						}
					}
				}
			}
			golden(t, filepath.Join("frames", name+".txt"), plain.String())
			golden(t, filepath.Join("colour", name+".txt"), colour.String())
		})
	}
}

// fits checks that a frame fills a screen and is not wider than it.
func fits(t testing.TB, view string, width, height int) {
	t.Helper()
	lines := strings.Split(view, "\n")
	require.Len(t, lines, height)
	for _, line := range lines {
		require.LessOrEqual(t, words.Width(line), width, "%q", line)
	}
}
