package runner

import (
	"slices"
	"time"
)

// HookState is how a hook of a chart stands.
type HookState string

// The states of hooks.
const (
	// HookRunning was sent, and its end is waited for.
	HookRunning HookState = "running"
	// HookCreated was sent, and nobody waits for its end.
	HookCreated HookState = "created"
	// HookSucceeded has run to its end, or is there if it does not run.
	HookSucceeded HookState = "succeeded"
	// HookFailed could not be sent, has failed, or its end was not waited for.
	HookFailed HookState = "failed"
)

// Hook is a hook of a Helm chart: an object that is sent at an event of the release.
type Hook struct {
	// Event is that of the release, such as pre-install.
	Event string `json:"event"`
	// Weight is the order of the hooks of one event: lower ones run first.
	Weight int `json:"weight,omitempty"`
	// State is how it stands.
	State HookState `json:"state"`
}

// HookRun is a hook that a step ran.
type HookRun struct {
	Hook
	// Object is the hook's, as Kind/namespace/name.
	Object string
	// Started is when it was sent, and Ended when that had an end; zero before.
	Started, Ended time.Time
	// Error is why it failed; "" otherwise.
	Error string
}

// Elapsed is how long the hook took, or takes by now.
func (h *HookRun) Elapsed(now time.Time) time.Duration {
	if h.Ended.IsZero() {
		return now.Sub(h.Started)
	}
	return h.Ended.Sub(h.Started)
}

// runHook notes how a hook stands. One that runs again, in a further attempt, keeps
// its place.
func (s *Step) runHook(e Event) {
	if e.Hook == nil {
		return
	}
	i := slices.IndexFunc(s.Hooks, func(h *HookRun) bool { return h.Object == e.Object && h.Event == e.Hook.Event })
	if i < 0 {
		s.Hooks, i = append(s.Hooks, &HookRun{Object: e.Object, Started: e.Time}), len(s.Hooks)
	}
	h := s.Hooks[i]
	if e.Hook.State == HookRunning {
		h.Started, h.Ended = e.Time, time.Time{}
	} else {
		h.Ended = e.Time
	}
	h.Hook, h.Error = *e.Hook, e.Error
}

// leaveHooks ends those hooks for whose end nobody waits any more.
func (s *Step) leaveHooks(now time.Time) {
	for _, h := range s.Hooks {
		if h.State == HookRunning {
			h.State, h.Ended, h.Error = HookFailed, now, "the attempt ended before the hook did"
		}
	}
}
