package apply

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/applyset"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/watch"
)

// outcome is what applying did to an object.
type outcome int

const (
	created outcome = iota
	configured
	unchanged
)

func (o outcome) String() string {
	return [...]string{"created", "configured", "unchanged"}[o]
}

// sender applies one object at a time.
type sender struct {
	*Action
	session  *cluster.Session
	reporter reporter
	reader   *reader
}

// send applies one object until it is admitted or refused for good. Applying is
// the same twice as once, so it is repeated also where it is not sure whether
// the object was persisted.
func (s *sender) send(ctx context.Context, it *item) (outcome, error) {
	if !it.read {
		if err := s.reader.ask(ctx, it); err != nil {
			return 0, s.explain(ctx, it, "get", err)
		}
		if s.reader.met(ctx, it) {
			it.take(it.before)
			return unchanged, nil
		}
	}
	if err := s.stranger(it); err != nil {
		return 0, err
	}
	body, err := json.Marshal(it.Unstructured)
	if err != nil {
		return 0, err
	}
	options := metav1.PatchOptions{
		FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict, Force: new(s.spec.ForceConflicts),
	}
	var e endurance
	for {
		answer, err := it.client.Patch(ctx, it.GetName(), types.ApplyPatchType, body, options)
		switch {
		case err == nil && answer.GetDeletionTimestamp() != nil:
			if err := s.gone(ctx, it); err != nil {
				return 0, err
			}
			it.before = nil
		case err == nil:
			what := it.judge(answer)
			it.take(answer)
			return what, nil
		case e.again(ctx, s.session, err, it):
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		default:
			if anew, failure := s.recreate(ctx, it, err); failure != nil {
				return 0, failure
			} else if !anew {
				return 0, s.explain(ctx, it, "patch", err)
			}
		}
	}
}

// stranger says whether a live object is a member of a set that is not the plan's.
func (s *sender) stranger(it *item) error {
	if !s.spec.Prune || it.before == nil || s.spec.ForceConflicts {
		return nil
	}
	id := it.before.GetLabels()[applyset.PartOf]
	if id == "" || id == s.set.ID() || s.neighbours.Sets[id] {
		return nil
	}
	return runner.WithHint(runner.Permanent(fmt.Errorf("is a member of another apply set, %s", id)),
		"take it over with force_conflicts: true, or leave it to whoever applies that set")
}

// gone waits until an object that is being deleted is, so that it can be made anew.
func (s *sender) gone(ctx context.Context, it *item) error {
	s.reporter.log(it.ID() + " is being deleted: waiting until it is gone")
	target := watch.TargetOf(it.Unstructured)
	return watch.Until(ctx, s.session, watch.Wait{
		Targets: []watch.Target{target}, For: target.String() + " to be deleted", Deletion: true,
		Judge: func(_ watch.Target, u *unstructured.Unstructured) watch.Reading {
			if u == nil {
				return watch.Reading{State: watch.Reached, Reason: "deleted"}
			}
			return watch.Reading{State: watch.Waiting, Reason: "being deleted, finalizers: " + strings.Join(u.GetFinalizers(), ", ")}
		},
		Notice: s.reporter.log,
	})
}

// explain returns the cause of a request that ended with the context, and hints otherwise.
func (s *sender) explain(ctx context.Context, it *item, verb string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	op := kubeerr.Op{Verb: verb, Resource: it.mapping.Resource.GroupResource(), Namespace: it.GetNamespace()}
	return kubeerr.Explain(kubeerr.Redact(err, it.Unstructured), op)
}
