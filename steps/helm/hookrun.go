package helm

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/internal/clean"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/engine"
)

// hookRuns tells which hook runs, and how it ended. Helm's goroutine alone uses it.
type hookRuns struct {
	reporter runner.Reporter
	// values are those of the release with the chart's own, which may say what a hook's
	// log is about.
	values map[string]any
	// running are the hooks that were sent and have not ended: Helm sends one at a time.
	running []runner.Report
}

// begin tells that hooks are being sent; what is no hook is left out. made is the
// revision that is being made, nil when a release is uninstalled.
func (h *hookRuns) begin(made *engine.Release, resources engine.ResourceList) {
	h.running, h.values = nil, nil
	if made != nil && made.Chart != nil {
		h.values = over(made.Config, made.Chart.Values)
	}
	for _, info := range resources {
		u, ok := info.Object.(*unstructured.Unstructured)
		if !ok || !isHook(info) {
			continue
		}
		hook := runner.Hook{Event: hookEvent(made, u), State: runner.HookRunning}
		hook.Weight, _ = strconv.Atoi(strings.TrimSpace(u.GetAnnotations()[weightAnnotation])) // Helm refuses what is none
		r := runner.Report{Type: runner.TypeHook, Object: objectOf(info), Hook: &hook}
		h.running = append(h.running, r)
		h.reporter.Report(r)
	}
}

// weightAnnotation has the weight of a hook (https://helm.sh/docs/topics/charts_hooks).
const weightAnnotation = "helm.sh/hook-weight"

// end tells how the hooks ended that were sent last.
func (h *hookRuns) end(state runner.HookState, err error) {
	for _, r := range h.running {
		r.Hook = &runner.Hook{Event: r.Hook.Event, Weight: r.Hook.Weight, State: state}
		if err != nil {
			r.Error = clean.Line(err.Error())
		}
		h.reporter.Report(r)
	}
	h.running = nil
}

// explained is the error of a hook that failed.
func (h *hookRuns) explained(err error) error { return &hookError{err, h.values} }

// deletions are the events of an uninstall.
var deletions = []engine.HookEvent{engine.HookPreDelete, engine.HookPostDelete}

// hookEvent is the event for which a hook runs now: of those that its annotation lists
// the one of the operation, and of two of them the one before the release's objects
// until these are sent.
func hookEvent(made *engine.Release, hook *unstructured.Unstructured) string {
	events, sent := deletions, false
	if made != nil && made.Info.Status.IsPending() {
		events, sent = eventsOf(made.Info.Status), made.Labels[phaseLabel] != ""
	}
	var meant []string
	for name := range strings.SplitSeq(hook.GetAnnotations()[engine.HookAnnotation], ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		if slices.Contains(events, engine.HookEvent(name)) {
			meant = append(meant, name)
		}
	}
	switch {
	case len(meant) == 0:
		return ""
	case len(meant) > 1 && sent:
		return string(events[1])
	case len(meant) > 1:
		return string(events[0])
	}
	return meant[0]
}
