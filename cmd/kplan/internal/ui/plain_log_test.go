package ui

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

const (
	web = "Deployment/demo/web"
	pod = "Pod/demo/web-7d9f8c6b5d-x2x4z container c"
)

// waits is the progress of a Deployment; it is ready with an empty text.
func waits(text string) runner.Event {
	return runner.Event{Type: runner.TypeProgress, Object: web, Message: words.Join(": ", web, text), Total: 2, Done: 1}
}

// probes are n lines of a log, one a second, which differ in their times and ids.
func probes(n int) []runner.Event {
	var all []runner.Event
	for i := range n {
		all = append(all, runner.Event{Type: runner.TypeLog, Object: pod, Of: web, Message: fmt.Sprintf(
			`2026-01-01T12:%02d:%02d.%03dZ WARN health check failed after %dms id=%08x-0000-4000-8000-%012d conn=127.0.0.1:%d`,
			i/60, i%60, i*7%1000, 900+i, i*7919, i, 40000+i)})
	}
	return all
}

// drawn plays events to a plain renderer.
func drawn(t *testing.T, o Options, all []runner.Event) string {
	t.Helper()
	var out bytes.Buffer
	show(t, newPlain(&out, o), all)
	return out.String()
}

func after(first []runner.Event, rest ...runner.Event) []runner.Event { return append(first, rest...) }

var (
	succeeded = runner.Event{Type: runner.TypeState, State: runner.StateSucceeded, Attempt: 1, Attempts: 1}
	failed    = runner.Event{Type: runner.TypeState, State: runner.StateFailed, Attempt: 1, Attempts: 1, Error: "timed out"}
	retrying  = runner.Event{Type: runner.TypeState, State: runner.StateRetrying, Attempt: 1, Attempts: 2, Error: "timed out", DelaySeconds: 5}
	ended     = runner.Event{Type: runner.TypeDone, State: runner.StateFailed}
)

// What pods say while they start well is in nobody's way.
func TestLogsOfAHealthyStartAreKeptBack(t *testing.T) {
	all := after([]runner.Event{waits("0 of 1 replicas are available")}, probes(14)...)
	out := drawn(t, Options{}, events("helm", after(all, waits(""), succeeded)...))
	require.NotContains(t, out, "health check")
	require.Contains(t, out, "succeeded")
}

// What pods say is told once what is waited for has not moved for a while, and lines
// that differ in times and ids alone are counted.
func TestLogsOfWhatDoesNotMoveAreTold(t *testing.T) {
	all := after([]runner.Event{waits("0 of 1 replicas are available")}, probes(60)...)
	out := drawn(t, Options{}, events("helm", after(all, waits(""), succeeded)...))
	require.Equal(t, 1, strings.Count(out, "health check failed"), out)
	require.Contains(t, out, web+" has not moved for 30s; "+pod+":")
	require.Regexp(t, `\(repeated \d+ times\)`, out)
	require.Equal(t, out, drawn(t, Options{}, events("helm", after(all, waits(""), succeeded)...)), "a replay shows the same")
}

// A pod that comes and goes does not move.
func TestCrashLoopsDoNotMove(t *testing.T) {
	var all []runner.Event
	for i := range 60 {
		text := fmt.Sprintf("0 of 1 replicas are available; pod web-7d9f8c6b5d-x2x4z runs, but its container c is not ready; restarted %d times", i/10)
		if i%10 == 0 {
			text = "0 of 1 replicas are available; pod web-7d9f8c6b5d-x2x4z is in CrashLoopBackOff: container c ended with 2"
		}
		all = append(all, waits(text), runner.Event{Type: runner.TypeLog, Object: pod, Of: web, Message: "panic: no license"})
	}
	require.Contains(t, drawn(t, Options{}, events("helm", all...)), "panic: no license")
}

// What failed comes with its log at the end, and an attempt that is followed by another
// one when it ends.
func TestLogsOfWhatFailedAreTold(t *testing.T) {
	all := after([]runner.Event{waits("0 of 1 replicas are available")}, probes(3)...)
	for name, end := range map[string][]runner.Event{"at the end": {failed, ended}, "before the next attempt": {retrying}} {
		out := drawn(t, Options{}, events("helm", after(all, end...)...))
		require.Equal(t, 1, strings.Count(out, "health check failed"), "%s: %s", name, out)
		require.Contains(t, out, "(repeated 2 times)", name)
	}
}

// A step's log has an end in plain output, however much its pods say.
func TestLogsAreBounded(t *testing.T) {
	all := []runner.Event{waits("0 of 1 replicas are available")}
	for i := range 400 {
		all = append(all, runner.Event{Type: runner.TypeLog, Object: pod, Of: web, Message: "line " + strings.Repeat("x", i)})
	}
	out := drawn(t, Options{}, events("helm", all...))
	require.Less(t, strings.Count(out, "line "), 100)
	require.Contains(t, out, "--logs all")
}

// An older record does not say whose log it is: then all that is waited for counts.
func TestLogsOfOlderRecords(t *testing.T) {
	all := after([]runner.Event{waits("0 of 1 replicas are available")}, probes(40)...)
	for i := range all {
		all[i].Of = ""
	}
	require.Equal(t, 1, strings.Count(drawn(t, Options{}, events("helm", all...)), "health check failed"))
	require.NotContains(t, drawn(t, Options{}, events("helm", all[:20]...)), "health check failed")
}

// People choose.
func TestLogsAsChosen(t *testing.T) {
	all := events("helm", after(probes(3), failed, ended)...)
	require.Equal(t, 3+1, strings.Count(drawn(t, Options{Logs: LogsAll}, all), "health check failed"), "and once more at the end")
	require.Equal(t, 0, strings.Count(drawn(t, Options{Logs: LogsNone}, all), "health check failed"))
}

// kplan's own words are no pod's.
func TestOwnLogIsTold(t *testing.T) {
	own := runner.Event{Type: runner.TypeLog, Message: "warning: v1beta1 Widget is deprecated"}
	require.Contains(t, drawn(t, Options{}, events("helm", own, succeeded)), "is deprecated")
}
