// Package apply is the apply step: it sends objects by server-side apply as
// field manager "kplan", namespaces and CustomResourceDefinitions first.
//
// It does not render anything, does not delete what a plan no longer names, and
// does not hold requests for webhooks itself: the session's transport does.
package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/internal/applyset"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
	"github.com/kplan-dev/kplan/steps/internal/watch"
)

const (
	// fieldManager owns the fields that kplan applies.
	fieldManager = "kplan"
	// inFlight bounds the requests on their way; more gain nothing (measured
	// with 500 ConfigMaps: 8 at a time 560/s, 32 at a time 562–590/s).
	inFlight = 16
	// headStart is how long a phase is waited for before the next one begins. A
	// request that takes longer is on its way to a webhook that does not answer:
	// it gives its place in flight back, as one that is held does at once, so that
	// the operator behind the webhook can be sent.
	headStart = 2 * time.Second
	// drain is how long the requests on their way may go on after one failed.
	drain = 2 * time.Second
)

// Action applies the objects of one step.
type Action struct {
	step    plan.Step
	spec    plan.Apply
	sources *source.Store

	manifests []manifest.Object         // nil until they were fetched
	brought   map[schema.GroupKind]bool // the kinds that the step itself defines
	namespace string

	set        applyset.Set // of a step that prunes
	neighbours Neighbours
	// created are the objects that an attempt made. Attempts come one at a time, and
	// flow.mu guards it in one.
	created map[string]bool
}

// New reads the files of an apply step from a store; namespace is that of objects for
// which neither they nor the step name one. What is wrong in the files is told here,
// before the plan starts. The cluster is asked in Run only, and what is not on this
// machine is fetched there.
func New(step plan.Step, namespace string, n Neighbours, from *source.Store) (*Action, error) {
	namespace = cmp.Or(step.Apply.Namespace, namespace)
	a := &Action{
		step: step, spec: *step.Apply, sources: from, namespace: namespace,
		set: applyset.Of(n.Plan, step, namespace), neighbours: n, created: map[string]bool{},
	}
	if source.Fetches(step) {
		return a, nil
	}
	return a, a.read(context.Background())
}

// read reads the step's objects, once.
func (a *Action) read(ctx context.Context) error {
	if a.manifests != nil {
		return nil
	}
	manifests, err := manifest.Read(ctx, a.step, a.sources)
	if err := errors.Join(err, runner.Permanent(manifest.CheckDuplicates(manifests, a.namespace))); err != nil {
		return err
	}
	if len(manifests) == 0 {
		return runner.Permanent(errors.New("there is no object to apply"))
	}
	a.manifests, a.brought = manifests, broughtBy(manifests)
	return nil
}

// Run applies the objects, and waits as the step says.
func (a *Action) Run(ctx context.Context, s *cluster.Session, reporter runner.Reporter) error {
	if err := a.read(ctx); err != nil {
		return err
	}
	r := newRun(a, s, reporter)
	err := r.do(ctx)
	if ctx.Err() != nil && err != nil {
		return r.ended(context.Cause(ctx), err)
	}
	return err
}

// run is one attempt.
type run struct {
	*Action
	session  *cluster.Session
	reporter reporter
	reader   *reader
	flow     *flow
	pruner   *pruner
	items    []*item
}

func newRun(a *Action, s *cluster.Session, to runner.Reporter) *run {
	slots := make(chan struct{}, inFlight)
	r := &run{Action: a, session: s, reporter: reporter{to}, reader: newReader(s, slots), pruner: newPruner(a, s, to)}
	sender := &sender{Action: a, session: s, reporter: r.reporter, reader: r.reader}
	r.flow = &flow{send: sender.send, reporter: to, total: len(a.manifests), slots: slots, created: a.created}
	return r
}

// reporter is a runner.Reporter that takes lines of text too.
type reporter struct{ runner.Reporter }

func (r reporter) log(message string) {
	r.Report(runner.Report{Type: runner.TypeLog, Message: message})
}

// do maps, sends and waits.
func (r *run) do(ctx context.Context) error {
	if err := r.prepare(ctx, func(m manifest.Object) bool { return !r.brought[m.Kind()] }); err != nil {
		return err
	}
	if r.spec.Prune {
		if err := r.pruner.openSet(ctx, r.items); err != nil {
			return err
		}
	}
	sending, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for p := range phases {
		items := r.inPhase(p)
		if len(items) > 0 {
			if err := r.reader.survey(sending, items); err != nil {
				r.flow.fail(err)
				break
			}
			if items = r.settle(sending, items); len(items) > 0 {
				r.flow.sendAll(sending, items, p == first)
			}
		}
		if p == first && !r.flow.failed() {
			if err := errors.Join(r.pruner.namespaceMade(ctx), r.established(ctx, items)); err != nil {
				r.flow.fail(err)
			} else if err := r.prepare(ctx, func(m manifest.Object) bool { return r.brought[m.Kind()] }); err != nil {
				r.flow.fail(err)
			}
		}
		if r.flow.failed() {
			break
		}
	}
	r.flow.join(stop)
	if r.flow.failed() {
		return r.flow.errs.err()
	}
	if r.spec.Wait == plan.WaitReady {
		if err := r.ready(ctx); err != nil {
			return err
		}
	}
	if r.spec.Prune {
		if err := r.pruner.prune(ctx, r.items); err != nil {
			return err
		}
	}
	r.reporter.Report(runner.Report{
		Type: runner.TypeResult, Message: r.summary(), Done: len(r.items), Total: len(r.items),
		Unchanged: r.flow.counts[unchanged] == len(r.items) && r.pruner.pruned == 0, Objects: r.applied(),
	})
	return nil
}

// settle notes the objects that were read and need nothing, and returns the others.
func (r *run) settle(ctx context.Context, items []*item) []*item {
	var rest []*item
	for _, it := range items {
		if !it.read || !r.reader.met(ctx, it) {
			rest = append(rest, it)
			continue
		}
		it.take(it.before)
		r.flow.sent(it, unchanged, nil)
	}
	return rest
}

// ready waits until every object is.
func (r *run) ready(ctx context.Context) error {
	judge := watch.Judge(ctx, r.session)
	var targets []watch.Target
	done := 0
	for _, it := range r.items {
		settled := it.outcome == unchanged || it.phase <= ground && it.phase != first
		if settled && judge(watch.TargetOf(it.answer), it.answer).State == watch.Reached {
			done++
			continue
		}
		targets = append(targets, watch.TargetOf(it.answer))
	}
	return watch.Until(ctx, r.session, watch.Wait{
		Targets: targets,
		Judge:   judge,
		Changed: func(c watch.Change) {
			r.reporter.Report(runner.Report{
				Type: runner.TypeProgress, Object: c.Target.Object(), Done: done + c.Ready, Total: done + c.Total,
				Message: c.Target.String() + ": " + changeText(c.Reading),
			})
		},
		Notice: r.reporter.log,
	})
}

func changeText(r watch.Reading) string {
	switch {
	case r.State == watch.Reached && r.Reason == "":
		return "ready"
	case r.State == watch.Reached:
		return "ready: " + r.Reason
	case r.Reason == "":
		return string(r.State)
	}
	return r.Reason
}

func (r *run) summary() string {
	var parts []string
	for what, n := range r.flow.counts {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, outcome(what)))
		}
	}
	if r.pruner.pruned > 0 {
		parts = append(parts, fmt.Sprintf("%d pruned", r.pruner.pruned))
	}
	return strings.Join(parts, ", ")
}

// applied are the step's objects for the record of the run.
func (r *run) applied() []runner.Applied {
	all := make([]runner.Applied, len(r.items))
	for i, it := range r.items {
		all[i] = it.record(r.created[it.ID()])
	}
	return all
}

// broughtBy are the kinds whose CustomResourceDefinition is among objects.
func broughtBy(objects []manifest.Object) map[schema.GroupKind]bool {
	brought := map[schema.GroupKind]bool{}
	for _, o := range objects {
		if kinds.IsDefinition(o.Unstructured) {
			brought[kinds.DefinitionOf(o.Unstructured).GroupKind] = true
		}
	}
	return brought
}
