package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// hook tells of a hook of a chart: that it runs, if that takes its time, and how it
// ended.
func (p *plain) hook(e runner.Event, s *runner.Step) {
	i := slices.IndexFunc(s.Hooks, func(h *runner.HookRun) bool { return e.Hook != nil && h.Object == e.Object && h.Event == e.Hook.Event })
	if i < 0 || s.Hooks[i].State == runner.HookRunning && !runs(e.Object) {
		return
	}
	h := s.Hooks[i]
	p.tell(e.Time, s, string(e.Type), hookColours[h.State], words.Join(": ", Hook(h, e.Time), h.Error))
}

// runs reports whether a hook is of a kind that runs to its end, by its object.
func runs(object string) bool {
	return strings.HasPrefix(object, "Job/") || strings.HasPrefix(object, "Pod/")
}

// Hook says in one line which hook of a chart it is and how it stands, without why it failed.
func Hook(h *runner.HookRun, now time.Time) string {
	weight, took := "", ""
	if h.Weight != 0 {
		weight = fmt.Sprintf("(weight %d)", h.Weight)
	}
	if runs(h.Object) && h.State != runner.HookCreated {
		switch d := h.Elapsed(now); h.State {
		case runner.HookRunning:
			if d > 0 {
				took = "for " + words.Brief(d)
			}
		case runner.HookFailed:
			took = "after " + words.Brief(d)
		case runner.HookSucceeded, runner.HookCreated:
			took = "in " + words.Brief(d)
		}
	}
	return words.Join(" ", h.Event, h.Object, weight, string(h.State), took)
}

var hookColours = map[runner.HookState]string{
	runner.HookRunning: "36", runner.HookCreated: "2", runner.HookSucceeded: "2", runner.HookFailed: "31;1",
}
