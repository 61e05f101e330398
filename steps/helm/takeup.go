package helm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/watch"
)

// interruptedLabel marks a revision whose maker stopped in the middle of it: it did
// not fail, and who goes on with it runs no hook again that has ended well.
const interruptedLabel = "kplan.dev/interrupted"

// takeUp writes a revision down as interrupted that its maker left in the middle of
// something, and finishes an uninstall, so that the attempt goes on from there. It
// returns the history as it is then. A revision that its maker may still work on
// is refused.
func (a *Action) takeUp(ctx context.Context, c *connection, r runner.Reporter, all history) (history, error) {
	last := all.last()
	if last == nil || !busy(last.Info.Status) {
		return all, nil
	}
	left := fmt.Sprintf("revision %d was left %s", last.Version, last.Info.Status)
	switch maker := last.Labels[runLabel]; {
	case maker != "" && maker == a.options.Run:
		left += " by an attempt before"
	case maker != "" && last.Labels[planLabel] == a.options.Plan && last.Labels[unlockedLabel] == "" && a.options.locked():
		left += " by run " + maker + " of this plan, which runs no more"
	case a.options.TakeOver:
		left += ", and is taken over"
	default:
		return nil, pendingError(last)
	}
	r.Report(runner.Report{Type: runner.TypeLog, Message: left + "; the step goes on with it"})
	if last.Info.Status == engine.StatusUninstalling {
		return a.finishUninstall(ctx, c, all)
	}
	last.Labels = maps.Clone(last.Labels)
	if last.Labels == nil {
		last.Labels = map[string]string{}
	}
	last.Labels[interruptedLabel] = "true"
	last.SetStatus(engine.StatusFailed, fmt.Sprintf("Interrupted: it was left %s", last.Info.Status))
	if err := c.write(last); err != nil {
		return nil, kubeerr.Explain(fmt.Errorf("writing down that %s: %w", left, cause(ctx, err)), kubeerr.Op{Verb: "update", Namespace: a.Namespace})
	}
	return all, nil
}

// finishUninstall does what an uninstall has left to do, but for its hooks that have
// ended well.
func (a *Action) finishUninstall(ctx context.Context, c *connection, all history) (history, error) {
	last := all.last()
	last.Hooks = slices.DeleteFunc(slices.Clone(last.Hooks), func(h *engine.Hook) bool {
		before, after := slices.Contains(h.Events, engine.HookPreDelete), slices.Contains(h.Events, engine.HookPostDelete)
		return before != after && h.LastRun.Phase == engine.HookPhaseSucceeded && !h.LastRun.StartedAt.Before(last.Info.Deleted)
	})
	err := c.write(last) // Helm reads it again
	if err == nil {
		err = c.operations().Uninstall(engine.Uninstall{Name: a.ReleaseName, Wait: a.waits(), KeepHistory: len(all) > 1})
	}
	if err != nil {
		return nil, kubeerr.Explain(fmt.Errorf("finishing the uninstall of release %s/%s: %w", a.Namespace, a.ReleaseName, cause(ctx, err)),
			kubeerr.Op{Verb: "delete", Namespace: a.Namespace})
	}
	return a.history(ctx, c)
}

// takeover is what a revision that sends the last one again takes over from it.
type takeover struct {
	last     *engine.Release
	client   *client
	reporter runner.Reporter
}

// resumes reports whether a revision goes on with the last one: that is of the same
// kind, and was interrupted.
func (o takeover) resumes(r *engine.Release) bool {
	if o.last.Labels[interruptedLabel] == "" {
		return false
	}
	wasInstall := o.last.Info.FirstDeployed.Equal(o.last.Info.LastDeployed)
	return wasInstall == (r.Info.Status == engine.StatusPendingInstall)
}

// unfinished are the hooks of a revision that the one which was interrupted had not
// brought to their end. Hooks are the same in both, in the same order.
//
// When all hooks had ended that go before the objects, or all that go after them,
// none of these is run again: what some of them made may be gone by design.
func (o takeover) unfinished(r *engine.Release) (*todo, error) {
	before, after := eventsOf(r.Info.Status)[0], eventsOf(r.Info.Status)[1]
	ready := o.last.Labels[phaseLabel] != "" || slices.ContainsFunc(o.last.Hooks, func(h *engine.Hook) bool {
		return !slices.Contains(h.Events, before) && slices.Contains(h.Events, after) && !h.LastRun.StartedAt.IsZero()
	})
	over := map[bool]bool{true: ready || allSucceeded(o.last.Hooks, before, after), false: allSucceeded(o.last.Hooks, after, before)}
	t := &todo{}
	for i, h := range r.Hooks {
		ran := o.last.Hooks[i]
		goesBefore, goesAfter := slices.Contains(h.Events, before), slices.Contains(h.Events, after)
		done := goesBefore && ready
		if goesBefore != goesAfter && !done { // with both nobody knows for which it ran
			var err error
			if done = over[goesBefore]; !done {
				done, err = o.ranToItsEnd(ran)
			}
			if err != nil {
				return nil, err
			}
			if done {
				t.leave(h, goesBefore)
				o.notAgain(ran)
			}
		}
		if done {
			h.LastRun = ran.LastRun
		} else {
			t.first = append(t.first, h)
		}
		if !done && !goesBefore || goesBefore && goesAfter {
			t.then = append(t.then, h)
		}
	}
	return t, nil
}

// allSucceeded reports whether all hooks of an event have ended well. It is not known
// of those that are for another event too.
func allSucceeded(hooks []*engine.Hook, event, other engine.HookEvent) bool {
	for _, h := range hooks {
		if slices.Contains(h.Events, event) && (h.LastRun.Phase != engine.HookPhaseSucceeded || slices.Contains(h.Events, other)) {
			return false
		}
	}
	return true
}

func (o takeover) notAgain(h *engine.Hook) {
	o.reporter.Report(runner.Report{Type: runner.TypeLog, Message: "hook " + h.Kind + "/" + h.Name + " succeeded before the run was interrupted, and is not run again"})
}

// ranToItsEnd reports whether a hook of the revision that was interrupted has ended
// well. Its maker may have been stopped before it wrote that down, or while the
// hook ran: then it is waited for. What a failed one left makes way.
func (o takeover) ranToItsEnd(h *engine.Hook) (bool, error) {
	if h.LastRun.StartedAt.IsZero() {
		return false, nil
	}
	made, err := o.client.Build(hookManifest(h), false)
	if err != nil || len(made) != 1 {
		return false, err
	}
	runs := runsToItsEnd(made[0].Mapping.GroupVersionKind.GroupKind())
	recorded := h.LastRun.Phase == engine.HookPhaseSucceeded
	if made[0].Name == "" || recorded && runs { // one whose name is generated is not found again
		return recorded, nil
	}
	live, err := liveOf(made[0])
	switch {
	case err != nil || live == nil || !isOf(live, made[0]):
		return false, err
	case recorded:
		return true, nil
	}
	if m, err := meta.Accessor(live); err != nil || m.GetAnnotations()[revisionAnnotation] != markOf(o.last) || markOf(o.last) == "" {
		return false, err
	}
	if !runs {
		h.LastRun.Phase = engine.HookPhaseSucceeded
		return true, nil
	}
	state := watch.Failed
	err = o.client.until(targets(made, nil), watch.Wait{Judge: func(t watch.Target, u *unstructured.Unstructured) watch.Reading {
		reading := ended(t, u)
		if u == nil {
			reading = watch.Reading{State: watch.Failed}
		}
		if state = reading.State; state == watch.Failed {
			return watch.Reading{State: watch.Reached} // what becomes of it is decided here
		}
		return reading
	}})
	if err != nil {
		return false, err
	}
	if state == watch.Reached {
		h.LastRun.Phase = engine.HookPhaseSucceeded
		return true, nil
	}
	return false, o.remove(made[0])
}

// remove deletes an object, and waits until it is gone.
func (o takeover) remove(info *resource.Info) error {
	objects := []*resource.Info{info}
	if _, errs := o.client.Delete(objects, metav1.DeletePropagationBackground); len(errs) > 0 {
		return errs[0]
	}
	return o.client.WaitForDelete(objects)
}

// revisionAnnotation of a hook's object says which revision of a release made it.
const revisionAnnotation = "kplan.dev/revision"

// markOf tells a revision from all others, also from those that had its number; it
// is empty when no run of a plan made it.
func markOf(r *engine.Release) string {
	if r.Labels[runLabel] == "" {
		return ""
	}
	return r.Labels[runLabel] + ".v" + strconv.Itoa(r.Version)
}

// begin takes note of what Helm is about to send. Hooks say which revision made them,
// so that a later run knows them again.
func (d *recorder) begin(resources engine.ResourceList) {
	for _, info := range resources {
		m, err := meta.Accessor(info.Object)
		if err != nil || m.GetAnnotations()[engine.HookAnnotation] == "" {
			continue
		}
		if made := d.made; made != nil && markOf(made) != "" {
			annotations := maps.Clone(m.GetAnnotations())
			annotations[revisionAnnotation] = markOf(made)
			m.SetAnnotations(annotations)
		}
		return
	}
	d.sends()
}

// clear removes hooks that ended well, as far as their policy says so.
func (d *recorder) clear(hooks []*engine.Hook) {
	for _, h := range hooks {
		if !slices.Contains(h.DeletePolicies, engine.HookSucceeded) || h.Kind == "CustomResourceDefinition" {
			continue
		}
		made, err := d.client.Build(hookManifest(h), false)
		if err == nil {
			_, errs := d.client.Delete(made, metav1.DeletePropagationBackground)
			err = errors.Join(errs...)
		}
		if err != nil {
			d.client.reporter.Report(runner.Report{Type: runner.TypeLog, Message: "hook " + h.Kind + "/" + h.Name + " could not be removed: " + err.Error()})
		}
	}
}
