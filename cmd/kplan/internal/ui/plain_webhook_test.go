package ui

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/runner"
)

// events are those of a run of one step, "s", each a second after the one before.
func events(kind string, after ...runner.Event) []runner.Event {
	all := append([]runner.Event{
		{Type: runner.TypePlan, Version: runner.EventVersion, Plan: "p", Steps: []runner.StepInfo{{Name: "s", Kind: kind}}},
		{Type: runner.TypeState, State: runner.StateRunning, Attempt: 1, Attempts: 1},
	}, after...)
	for i := range all {
		all[i].Seq, all[i].Time = i+1, time.Date(2026, 1, 1, 12, 0, i, 0, time.UTC)
		if all[i].Type != runner.TypePlan && all[i].Type != runner.TypeDone {
			all[i].Step = "s"
		}
	}
	return all
}

// Webhooks of one name are told apart by their kind.
func TestPlainTellsNamesakesApart(t *testing.T) {
	hook := func(kind, rung string) runner.Event {
		return runner.Event{Type: runner.TypeWebhook, Webhook: &runner.Webhook{
			Kind: kind, Name: "webhook.cert-manager.io", Configuration: "cert-manager-webhook", Rung: rung, State: "waiting", Cause: "no",
		}}
	}
	var out bytes.Buffer
	show(t, newPlain(&out, Options{}), events("webhook", hook("mutating", "backed"), hook("validating", "trusted"), hook("mutating", "backed")))
	require.Contains(t, out.String(), "12:00:02  s  webhook    mutating webhook.cert-manager.io: backed: no\n")
	require.Contains(t, out.String(), "12:00:03  s  webhook    validating webhook.cert-manager.io: trusted: no\n")
}

// Which objects webhooks will judge is told before they are sent, or not at all.
func TestPlainTellsNoGuardsLate(t *testing.T) {
	ended := runner.Event{Type: runner.TypeState, State: runner.StateSucceeded, Attempt: 1, Attempts: 1}
	guards := runner.Event{Type: runner.TypeGuards, Guards: []runner.Guard{{Step: "s", By: "s", Webhooks: []string{"v"}, Objects: 2}}}
	for name, all := range map[string][]runner.Event{
		"while nothing was sent": events("helm", guards, ended), "when the step has ended": events("helm", ended, guards),
	} {
		var out bytes.Buffer
		show(t, newPlain(&out, Options{}), all)
		require.Equal(t, name == "while nothing was sent", bytes.Contains(out.Bytes(), []byte("guarded")), "%s:\n%s", name, out.String())
	}
}

// The webhooks of an operator have one Service: what is wrong with it is told once, and
// so is its end.
func TestPlainTellsOfOneServiceOnce(t *testing.T) {
	hook := func(i int) *runner.Webhook {
		return &runner.Webhook{Name: fmt.Sprintf("vm%d.example.com", i), Service: "kof/vm", Cause: "connection refused"}
	}
	var held, stands, released, ready []runner.Event
	for i := range 25 {
		object := fmt.Sprintf("VM%d/kof/x", i)
		held = append(held, runner.Event{Type: runner.TypeHeld, Object: object, Webhook: hook(i)})
		w := hook(i)
		w.Kind, w.Configuration, w.Rung, w.State, w.Cause = "validating", "vm", "backed", "waiting", "0 of 1 endpoints ready"
		stands = append(stands, runner.Event{Type: runner.TypeWebhook, Webhook: w})
		w = hook(i)
		w.HeldSeconds, w.Sends = 4, 2
		released = append(released, runner.Event{Type: runner.TypeReleased, Object: object, Webhook: w})
		w = hook(i)
		w.Kind, w.Configuration, w.Rung, w.State, w.Cause = "validating", "vm", "admitting", "ready", ""
		ready = append(ready, runner.Event{Type: runner.TypeWebhook, Webhook: w})
	}
	all := events("helm", slices.Concat(held, stands, released, ready)...)
	for i := range all { // at once
		all[i].Time = all[0].Time.Add(time.Duration(i) * time.Millisecond)
	}
	require.Equal(t, ` plan       p: 1 step
 holding    VM0/kof/x: webhook "vm0.example.com" (Service kof/vm): connection refused
 webhook    validating vm0.example.com: backed: 0 of 1 endpoints ready
 released   25 requests held up to 4.0s (50 sends) by 25 webhooks (Service kof/vm)
`, regexp.MustCompile(`(?m)^12:00:00  [s ] `).ReplaceAllString(drawn(t, Options{}, all), ""))
}

// That steps are still at work is told in one line, and less often the longer nothing
// changes.
func TestPlainTellsThatStepsAreStillAtWork(t *testing.T) {
	all := events("helm")
	all[0].Steps = append(all[0].Steps, runner.StepInfo{Name: "b", Kind: "wait"})
	second := all[1]
	second.Seq, second.Step = 3, "b"
	end := runner.Event{Seq: 4, Type: runner.TypeState, Step: "s", State: runner.StateSucceeded, Attempt: 1, Attempts: 1, Time: all[0].Time.Add(10 * time.Minute)}
	out := drawn(t, Options{}, append(all, second, end))
	require.Contains(t, out, "12:00:15     running    still at work: s 14s, b 14s\n")
	var gaps []time.Duration
	last := 14 * time.Second
	for _, m := range regexp.MustCompile(`still at work: s (\S+),`).FindAllStringSubmatch(out, -1)[1:] {
		at, err := time.ParseDuration(m[1])
		require.NoError(t, err)
		gaps, last = append(gaps, at-last), at
	}
	require.Equal(t, slices.Concat(
		slices.Repeat([]time.Duration{9 * time.Second}, 5), slices.Repeat([]time.Duration{29 * time.Second}, 8),
		slices.Repeat([]time.Duration{59 * time.Second}, 5)), gaps, out)
}
