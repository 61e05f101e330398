package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/runner"
)

var update = flag.Bool("update", false, "write the goldens anew")

// meta is what the reports of these tests say besides their runs.
var meta = Meta{Version: "v1.2.3", PlanFile: "plans/demo.yaml"}

// readEvents reads a recorded run.
func readEvents(t testing.TB, file string) []runner.Event {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var events []runner.Event
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, len(b)+1)
	for lines.Scan() {
		var e runner.Event
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		events = append(events, e)
	}
	return events
}

func fold(events []runner.Event) *timeline.Timeline {
	t := &timeline.Timeline{}
	for _, e := range events {
		t.Apply(e)
	}
	return t
}

// recorded are the recorded runs, by name.
func recorded(t testing.TB) map[string]*timeline.Timeline {
	t.Helper()
	files, err := filepath.Glob("../ui/testdata/events/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	runs := map[string]*timeline.Timeline{}
	for _, file := range files {
		runs[strings.TrimSuffix(filepath.Base(file), ".jsonl")] = fold(readEvents(t, file))
	}
	return runs
}

func write(t testing.TB, k Kind, l *timeline.Timeline, m Meta) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, k, l, m))
	return b.Bytes()
}

// TestRecordedRuns writes every kind of report of every recorded run.
func TestRecordedRuns(t *testing.T) {
	for name, l := range recorded(t) {
		for _, kind := range Kinds {
			t.Run(name+"/"+string(kind), func(t *testing.T) {
				got := write(t, kind, l, meta)
				if kind == OTLP { // is one line
					var lines bytes.Buffer
					require.NoError(t, json.Indent(&lines, got, "", " "))
					got = lines.Bytes()
				}
				golden := filepath.Join("testdata", string(kind), name+kind.Ext())
				if *update {
					require.NoError(t, os.MkdirAll(filepath.Dir(golden), 0o755))
					require.NoError(t, os.WriteFile(golden, got, 0o644))
				}
				want, err := os.ReadFile(golden)
				require.NoError(t, err)
				require.Equal(t, string(want), string(got))
			})
		}
	}
}
