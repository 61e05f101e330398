package timeline

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

	"github.com/kplan-dev/kplan/runner"
)

var update = flag.Bool("update", false, "write the goldens anew")

// readEvents reads a recorded run.
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

func fold(events []runner.Event) *Timeline {
	t := &Timeline{}
	for _, e := range events {
		t.Apply(e)
	}
	return t
}

// TestRecordedRuns folds every recorded run and writes down what is known of it
// at its end, and in its middle.
func TestRecordedRuns(t *testing.T) {
	files, err := filepath.Glob("../ui/testdata/events/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			events := readEvents(t, file)
			half, whole := fold(events[:len(events)/2]), fold(events)
			var got bytes.Buffer
			fmt.Fprintf(&got, "== after event %d\n", len(events)/2)
			dump(&got, half)
			fmt.Fprintf(&got, "== at the end\n")
			dump(&got, whole)
			golden := filepath.Join("testdata", name+".txt")
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(golden, got.Bytes(), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got.String())
			check(t, half)
			check(t, whole)
		})
	}
}

// dump writes all that t knows, times as seconds from the start.
func dump(w *bytes.Buffer, t *Timeline) {
	at := func(from, to time.Time) string {
		if to.IsZero() {
			return fmt.Sprintf("%.2f-", from.Sub(t.Start()).Seconds())
		}
		return fmt.Sprintf("%.2f-%.2f", from.Sub(t.Start()).Seconds(), to.Sub(t.Start()).Seconds())
	}
	for _, s := range t.Steps() {
		fmt.Fprintf(w, "step %s\n", s.Name)
		for _, x := range s.Spans {
			fmt.Fprintf(w, "  %s %s %d\n", at(x.From, x.To), x.State, x.Attempt)
		}
		for _, a := range s.Attempts {
			fmt.Fprintf(w, "  attempt %d %s %s %q %q %s\n", a.N, at(a.From, a.To), a.State, a.Error, a.Hint, time.Duration(a.DelaySeconds*float64(time.Second)))
		}
		for _, n := range s.Notes {
			fmt.Fprintf(w, "  note %s %q\n", at(n.Time, n.Time), n.Text)
		}
		for _, o := range s.Objects {
			fmt.Fprintf(w, "  object %s %s %q\n", at(o.First, o.Last), o.Name, o.Text)
		}
		for _, l := range s.Logs {
			fmt.Fprintf(w, "  log %s %q %q\n", at(l.Time, l.Time), l.Object, l.Text)
		}
	}
	for _, l := range t.Webhooks() {
		fmt.Fprintf(w, "webhook %q %q of %q %q at %q\n", l.Cluster, l.Name, l.Configuration, l.Owner, l.Service)
		fmt.Fprintf(w, "  %d requests, %d held, %d failed, %d sends, longest %s, %s in all\n", l.Requests, l.Held, l.Failed, l.Sends, l.Longest, l.HoldTime(t.now))
		for _, r := range l.Rungs {
			fmt.Fprintf(w, "  stood %s %s %s %q\n", at(r.From, r.To), r.Name, r.State, r.Cause)
		}
		for _, r := range l.Ladder() {
			since := "-"
			if !r.From.IsZero() {
				since = at(r.From, r.To)
			}
			fmt.Fprintf(w, "  ladder %s %s %q since %s found %t\n", r.Name, r.State, r.Cause, since, r.Found)
		}
		for _, h := range l.Holds {
			fmt.Fprintf(w, "  held %s %s %s %d %q %q\n", at(h.From, h.To), h.Step, h.Object, h.Sends, h.Cause, h.Error)
		}
	}
	for _, n := range t.Notices() {
		fmt.Fprintf(w, "notice %s %s %q %q\n", at(n.Time, n.Time), n.Type, n.Text, n.Error)
	}
	fmt.Fprintf(w, "critical %s\n", strings.Join(t.Critical(t.now), " → "))
	fmt.Fprintf(w, "end %.2f, ended %t\n", t.End(t.now).Sub(t.Start()).Seconds(), t.Ended())
}

// check looks for what holds of every timeline, whatever its events were.
func check(t require.TestingT, l *Timeline) {
	total := 0
	for _, s := range l.Steps() {
		require.NotEmpty(t, s.Spans)
		for i, x := range s.Spans {
			if i > 0 {
				require.False(t, x.From.Before(s.Spans[i-1].To), "spans come in order")
			}
			if i < len(s.Spans)-1 || l.Ended() || s.State.Terminal() {
				require.False(t, x.To.IsZero(), "only the last span is open")
			}
			require.False(t, !x.To.IsZero() && x.To.Before(x.From), "time goes forward")
		}
		require.LessOrEqual(t, len(s.Spans), SpanLimit)
		for i, a := range s.Attempts {
			require.False(t, i < len(s.Attempts)-1 && a.To.IsZero(), "only the last attempt is open")
			require.False(t, !a.To.IsZero() && a.To.Before(a.From), "time goes forward")
		}
		if l.Ended() {
			require.Empty(t, s.open, "nothing is held after the end")
		}
		if !s.State.Active() || l.Ended() {
			require.True(t, len(s.Attempts) == 0 || !s.Attempts[len(s.Attempts)-1].To.IsZero())
		}
		if len(s.Logs) > 1 {
			require.LessOrEqual(t, s.logBytes, LogBytes)
		}
		for _, h := range s.Holds {
			total += h.Requests
		}
	}
	for _, hook := range l.Webhooks() {
		held, failed := 0, 0
		for _, h := range hook.Holds {
			if h.To.IsZero() {
				held++
			}
			if h.Error != "" {
				failed++
			}
		}
		if hook.Requests <= HoldLimit {
			require.Len(t, hook.Holds, hook.Requests)
			require.Equal(t, held, hook.Held)
			require.Equal(t, failed, hook.Failed)
		}
		for i, r := range hook.Rungs {
			require.False(t, i < len(hook.Rungs)-1 && r.To.IsZero(), "only the last rung is open")
			require.False(t, !r.To.IsZero() && r.To.Before(r.From), "time goes forward")
		}
		require.Equal(t, len(hook.Rungs) > 0, len(hook.Ladder()) > 0)
		total -= hook.Requests
	}
	require.Zero(t, total, "the fold without history counts the same requests")
	seen := map[string]bool{}
	for _, name := range l.Critical(l.now) {
		require.False(t, seen[name], "a step is on the path once")
		seen[name] = true
		require.NotNil(t, l.Step(name))
	}
}
