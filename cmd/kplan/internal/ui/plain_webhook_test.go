package ui

import (
	"bytes"
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
