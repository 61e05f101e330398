package helm

import (
	"cmp"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/engine"
)

// toRun are those hooks that are still to run in an install that goes on with
// failed ones: all but what these have done, which comes with how it ended.
//
// What is created anew each time (before-hook-creation, Helm's default) is never
// done. A Job or Pod is done once it succeeded; what a failed one left makes way.
// Other kinds are done while they are there: what is gone may be needed by the
// hooks that follow.
func (f failedInstalls) toRun(hooks []*engine.Hook) ([]*engine.Hook, error) {
	var run []*engine.Hook
	for _, h := range hooks {
		done, err := f.done(h)
		if err != nil {
			return nil, err
		}
		if !done {
			run = append(run, h)
		}
	}
	return run, nil
}

func (f failedInstalls) done(h *engine.Hook) (bool, error) {
	before := f.ranBefore(h)
	if before == nil {
		return false, nil
	}
	h.LastRun = before.LastRun
	made, err := f.client.Build(hookManifest(before), false)
	if err != nil || len(made) != 1 {
		return false, err
	}
	runs := runsToItsEnd(made[0].Mapping.GroupVersionKind.GroupKind())
	if runs && before.LastRun.Phase == engine.HookPhaseSucceeded {
		f.reporter.Report(runner.Report{Type: runner.TypeLog, Message: "hook " + objectOf(made[0]) + " succeeded in an attempt before and is not run again"})
		return true, nil
	}
	live, err := liveOf(made[0])
	if err != nil || live == nil || !isOf(live, made[0]) {
		return false, err
	}
	if !runs {
		return true, nil
	}
	if _, errs := f.client.Delete(made, metav1.DeletePropagationBackground); len(errs) > 0 {
		return false, errors.Join(errs...)
	}
	return false, f.client.WaitForDelete(made)
}

// ranBefore is the hook as the newest failed install ran it that did; nil if none
// did, or if that does not matter.
func (f failedInstalls) ranBefore(h *engine.Hook) *engine.Hook {
	events := 0
	for _, e := range h.Events {
		if e == engine.HookPreInstall || e == engine.HookPostInstall {
			events++
		}
	}
	if events != 1 || len(h.DeletePolicies) == 0 || slices.Contains(h.DeletePolicies, engine.HookBeforeHookCreation) {
		return nil // with two events nobody knows for which of them it ran
	}
	name := f.objectOfHook(h)
	for _, r := range f.revisions {
		for _, before := range r.Hooks {
			if !before.LastRun.StartedAt.IsZero() && f.objectOfHook(before) == name {
				return before
			}
		}
	}
	return nil
}

// objectOfHook names the object of a hook.
func (f failedInstalls) objectOfHook(h *engine.Hook) identity {
	objects, err := charts.Decode(h.Manifest)
	if err != nil || len(objects) != 1 {
		return identity{name: h.Path} // Helm says what is wrong with it
	}
	u := objects[0]
	return identity{u.GroupVersionKind().GroupKind(), cmp.Or(u.GetNamespace(), f.namespace), u.GetName()}
}

// runsToItsEnd reports whether hooks of a kind are done when they have run, and not
// when they are there.
func runsToItsEnd(kind schema.GroupKind) bool {
	return kind == job || kind == pod
}

// isOf reports whether a live object is the one that was sent, by its labels and
// annotations: hooks bear no other mark of their release.
func isOf(live runtime.Object, sent *resource.Info) bool {
	l, err := meta.Accessor(live)
	if err != nil {
		return false
	}
	s, err := meta.Accessor(sent.Object)
	if err != nil {
		return false
	}
	return contains(l.GetLabels(), s.GetLabels()) && contains(l.GetAnnotations(), s.GetAnnotations())
}

// contains reports whether all has what part has.
func contains(all, part labels.Set) bool { return part.AsSelectorPreValidated().Matches(all) }
