// Package removal deletes objects of a cluster in an order in which they can go:
// custom resources while their controllers and webhooks still answer, then webhook
// configurations, workloads, what those need, definitions and namespaces. It waits
// until they are gone, and says what is in the way of one that does not go.
//
// It does not decide what is deleted, and knows nothing of plans and releases.
package removal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/watch"
)

// inFlight bounds the requests on their way.
const inFlight = 16

// Object is a live object that goes.
type Object struct {
	*unstructured.Unstructured
	Mapping *meta.RESTMapping
	// Why says for people why it goes where that is not plain: it was not named.
	Why string
}

// ID names the object as events do: Kind/namespace/name.
func (o Object) ID() string { return watch.TargetOf(o.Unstructured).Object() }

// Kept is an object that stays, and why.
type Kept struct {
	Object string `json:"object"`
	Reason string `json:"reason"`
}

// Options say how objects are deleted.
type Options struct {
	// Forget does not wait until the objects are gone.
	Forget bool
	// ForceFinalizers takes away finalizers whose controller is gone.
	ForceFinalizers bool
	// BreakWebhooks lets requests pass that a webhook which nobody serves any more
	// would have to judge, and restores it afterwards.
	BreakWebhooks bool
}

// Remover deletes objects in one step's attempt.
type Remover struct {
	Options
	Session  *cluster.Session
	Reporter runner.Reporter
	// Total is how many objects the step has in all, for its progress; Done how many
	// of them are gone.
	Done, Total int
}

// Remove deletes objects, and waits until they are gone. What has gone meanwhile is
// no fault. The objects of one phase go side by side.
func (r *Remover) Remove(ctx context.Context, objects []Object) error {
	r.Total = max(r.Total, r.Done+len(objects))
	for _, phase := range inPhases(objects) {
		if err := r.phase(ctx, phase); err != nil {
			return err
		}
	}
	return nil
}

// phase deletes objects that can go together.
func (r *Remover) phase(ctx context.Context, objects []Object) error {
	b := newBlocks(r, objects)
	defer b.restore(ctx)
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watching := b.start(working, stop)
	err := r.send(working, b, objects)
	if err == nil && !r.Forget {
		err = r.gone(working, b, objects)
	}
	stop(nil)
	watching()
	if blocked := (*BlockedError)(nil); errors.As(context.Cause(working), &blocked) {
		return runner.Permanent(blocked)
	}
	if timeout := (*runner.TimeoutError)(nil); err != nil && errors.As(err, &timeout) {
		return b.explain(context.WithoutCancel(ctx), err)
	}
	if err == nil {
		r.Done += len(objects)
	}
	return err
}

// send asks for the deletion of each object. Those that cannot be asked for are told
// together, after the others were.
func (r *Remover) send(ctx context.Context, b *blocks, objects []Object) error {
	group := new(errgroup.Group)
	group.SetLimit(inFlight)
	errs := make([]error, len(objects))
	for i, o := range objects {
		group.Go(func() error {
			errs[i] = r.delete(b.notified(ctx), o)
			return nil
		})
	}
	_ = group.Wait()
	failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(failed) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	const most = 5
	var texts []string
	for _, err := range failed[:min(most, len(failed))] {
		texts = append(texts, err.Error())
	}
	if more := len(failed) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return kubeerr.Reword(strings.Join(texts, "; "), failed...)
}

// delete asks for the deletion of one object, unless it is asked for already.
func (r *Remover) delete(ctx context.Context, o Object) error {
	if o.GetDeletionTimestamp() != nil {
		return nil
	}
	policy := metav1.DeletePropagationBackground
	if keepsPods(o.Mapping) {
		policy = metav1.DeletePropagationForeground
	}
	uid := o.GetUID()
	client := r.Session.Resource(o.Mapping, o.GetNamespace())
	err := client.Delete(ctx, o.GetName(), metav1.DeleteOptions{
		PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &uid},
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err): // another one bears its name now
		return nil
	case err != nil:
		return kubeerr.Explain(fmt.Errorf("deleting %s: %w", o.ID(), err), kubeerr.Op{
			Verb: "delete", Resource: o.Mapping.Resource.GroupResource(), Namespace: o.GetNamespace(),
		})
	}
	r.Reporter.Report(runner.Report{Type: runner.TypeProgress, Object: o.ID(), Message: o.ID() + " deleting", Done: r.Done, Total: r.Total})
	return nil
}

// gone waits until the objects are.
func (r *Remover) gone(ctx context.Context, b *blocks, objects []Object) error {
	targets, uids := make([]watch.Target, len(objects)), make(map[watch.Target]types.UID, len(objects))
	for i, o := range objects {
		targets[i] = watch.TargetOf(o.Unstructured)
		uids[targets[i]] = o.GetUID()
	}
	return watch.Until(ctx, r.Session, watch.Wait{
		Targets: targets, Deletion: true, For: count(len(objects), "object") + " to be deleted",
		Judge: func(t watch.Target, u *unstructured.Unstructured) watch.Reading {
			if u != nil && u.GetUID() != uids[t] { // another one bears its name now, such as a hook that ran meanwhile
				u = nil
			}
			b.see(t.Object(), u)
			return Judge(u)
		},
		Changed: func(c watch.Change) {
			r.Reporter.Report(runner.Report{
				Type: runner.TypeProgress, Object: c.Target.Object(), Done: r.Done + c.Ready, Total: r.Total,
				Message: c.Target.String() + ": " + c.Reading.Reason,
			})
		},
		Notice: func(s string) { r.Reporter.Report(runner.Report{Type: runner.TypeLog, Message: s}) },
	})
}

// Judge says whether an object is gone, and else what it waits for.
func Judge(u *unstructured.Unstructured) watch.Reading {
	waits := func(reason string) watch.Reading { return watch.Reading{State: watch.Waiting, Reason: reason} }
	switch {
	case u == nil:
		return watch.Reading{State: watch.Reached, Reason: "gone"}
	case u.GetDeletionTimestamp() == nil:
		return waits("still there")
	}
	if why := remaining(u); why != "" {
		return waits("being deleted: " + why)
	}
	if f := u.GetFinalizers(); len(f) > 0 {
		return waits("being deleted, finalizers: " + strings.Join(f, ", "))
	}
	return waits("being deleted")
}

// remaining is what a namespace or a definition says of what is left in it.
func remaining(u *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	var all []string
	for _, c := range conditions {
		m, ok := c.(map[string]any)
		if !ok || m["status"] != "True" {
			continue
		}
		name, _ := m["type"].(string)
		message, _ := m["message"].(string)
		if slices.Contains(remainders, name) {
			all = append(all, cmp.Or(message, name))
		}
	}
	return strings.Join(all, "; ")
}

// remainders are the conditions of namespaces and definitions that say why they are
// still there (k8s.io/api core/v1, apiextensions v1).
var remainders = []string{
	"NamespaceDeletionDiscoveryFailure", "NamespaceDeletionContentFailure", "NamespaceDeletionGroupVersionParsingFailure",
	"NamespaceContentRemaining", "NamespaceFinalizersRemaining", "Terminating",
}

// count is a number of things in words.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
