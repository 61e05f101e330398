package ui

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/runner"
)

// Each hook of a chart has its line; one that runs has a second one when it ends.
func TestPlainTellsOfHooks(t *testing.T) {
	hook := func(state runner.HookState, event string, weight int, object, fault string) runner.Event {
		return runner.Event{Type: runner.TypeHook, Object: object, Error: fault, Hook: &runner.Hook{Event: event, Weight: weight, State: state}}
	}
	var out bytes.Buffer
	show(t, newPlain(&out, Options{}), events("helm",
		hook(runner.HookRunning, "pre-install", -5, "ServiceAccount/demo/check", ""),
		hook(runner.HookSucceeded, "pre-install", -5, "ServiceAccount/demo/check", ""),
		hook(runner.HookRunning, "pre-install", 0, "Job/demo/check", ""),
		hook(runner.HookSucceeded, "pre-install", 0, "Job/demo/check", ""),
		hook(runner.HookCreated, "post-install", 0, "Job/demo/notify", ""),
		hook(runner.HookRunning, "post-install", 1, "Pod/demo/test", ""),
		hook(runner.HookFailed, "post-install", 1, "Pod/demo/test", "it said no"),
	))
	var lines []string
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "  hook  ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	require.Equal(t, []string{
		"12:00:03  s  hook       pre-install ServiceAccount/demo/check (weight -5) succeeded",
		"12:00:04  s  hook       pre-install Job/demo/check running",
		"12:00:05  s  hook       pre-install Job/demo/check succeeded in 1.0s",
		"12:00:06  s  hook       post-install Job/demo/notify created",
		"12:00:07  s  hook       post-install Pod/demo/test (weight 1) running",
		"12:00:08  s  hook       post-install Pod/demo/test (weight 1) failed after 1.0s: it said no",
	}, lines)
}
