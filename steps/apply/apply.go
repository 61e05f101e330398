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
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
	"github.com/kplan-dev/kplan/steps/internal/watch"
	"github.com/kplan-dev/kplan/webhook/hold"
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
	spec      plan.Apply
	manifests []manifest.Object
	brought   map[schema.GroupKind]bool // the kinds that the step itself defines
	namespace string
}

// New reads the files of an apply step; namespace is that of objects for which neither
// they nor the step name one. What is wrong in the files is told here, before the plan
// starts; the cluster is asked in Run only.
func New(step plan.Step, namespace string) (*Action, error) {
	spec := *step.Apply
	manifests, err := manifest.Read(step)
	namespace = cmp.Or(spec.Namespace, namespace)
	if err := errors.Join(err, manifest.CheckDuplicates(manifests, namespace)); err != nil {
		return nil, runner.Permanent(err)
	}
	if len(manifests) == 0 {
		return nil, runner.Permanent(errors.New("there is no object to apply"))
	}
	return &Action{spec: spec, manifests: manifests, brought: broughtBy(manifests), namespace: namespace}, nil
}

// Run applies the objects, and waits as the step says.
func (a *Action) Run(ctx context.Context, s *cluster.Session, reporter runner.Reporter) error {
	md, err := metadata.NewForConfig(s.Config)
	if err != nil {
		return fmt.Errorf("making the metadata client: %w", err)
	}
	r := &run{Action: a, session: s, metadata: md, reporter: reporter, slots: make(chan struct{}, inFlight)}
	err = r.do(ctx)
	if ctx.Err() != nil && err != nil {
		return r.ended(context.Cause(ctx), err)
	}
	return err
}

// run is one attempt.
type run struct {
	*Action
	session  *cluster.Session
	metadata metadata.Interface
	reporter runner.Reporter
	slots    chan struct{} // one entry for each request in flight

	mu     sync.Mutex
	counts [3]int // by outcome
	items  []*item
	errs   faults
}

// do maps, sends and waits.
func (r *run) do(ctx context.Context) error {
	if err := r.prepare(ctx, func(m manifest.Object) bool { return !r.brought[m.Kind()] }); err != nil {
		return err
	}
	sending, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var sends sync.WaitGroup
	for p := range phases {
		items := r.inPhase(p)
		if len(items) > 0 {
			if err := r.survey(sending, items); err != nil {
				r.fail(err)
				break
			}
			r.sendAll(sending, items, &sends, p == first)
		}
		if p == first && !r.failed() {
			if err := r.established(ctx, items); err != nil {
				r.fail(err)
			} else if err := r.prepare(ctx, func(m manifest.Object) bool { return r.brought[m.Kind()] }); err != nil {
				r.fail(err)
			}
		}
		if r.failed() {
			break
		}
	}
	r.join(&sends, stop)
	if r.failed() {
		return r.errs.err()
	}
	if r.spec.Wait == plan.WaitReady {
		if err := r.ready(ctx); err != nil {
			return err
		}
	}
	r.reporter.Report(runner.Report{
		Type: runner.TypeResult, Message: r.summary(), Done: len(r.items), Total: len(r.items),
		Unchanged: r.counts[unchanged] == len(r.items),
	})
	return nil
}

// sendAll starts the requests of one phase and waits until they were answered;
// unless all of them have to be, those that are held, or take longer than the
// head start, are left behind.
func (r *run) sendAll(ctx context.Context, items []*item, sends *sync.WaitGroup, all bool) {
	var phase sync.WaitGroup
	for i, it := range items {
		// Those that go first go whatever becomes of one of them, so that what is
		// wrong with several is told together.
		if !r.acquire(ctx, i < inFlight) {
			if !r.failed() {
				r.fail(context.Cause(ctx))
			}
			break
		}
		phase.Add(1)
		release, settle := sync.OnceFunc(func() { <-r.slots }), sync.OnceFunc(phase.Done)
		slow := time.AfterFunc(headStart, release)
		sends.Go(func() {
			defer settle()
			defer release()
			defer slow.Stop()
			what, err := r.send(hold.WithNotify(ctx, func(n hold.Notice) {
				if n.Event != hold.Held {
					return
				}
				release()
				if !all {
					settle()
				}
			}), it)
			r.sent(it, what, err)
		})
	}
	answered := make(chan struct{})
	go func() { // ends with the phase's requests, for which join waits
		phase.Wait()
		close(answered)
	}()
	if all {
		<-answered
		return
	}
	select {
	case <-answered:
	case <-time.After(headStart):
	}
}

// acquire waits for a place in flight; false when nothing is to be started any more.
// An object that failed matters to those that do not go first.
func (r *run) acquire(ctx context.Context, early bool) bool {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if !early && r.failed() || ctx.Err() != nil {
		<-r.slots
		return false
	}
	return true
}

// errStopped ends requests because another one of the step failed.
var errStopped = errors.New("stopped: another object failed")

// join waits for every request. Once one failed, the rest have little time:
// what is held for a webhook would keep the failure from being told.
func (r *run) join(sends *sync.WaitGroup, stop context.CancelCauseFunc) {
	done := make(chan struct{})
	go func() { // ends with the requests, which are waited for below
		sends.Wait()
		close(done)
	}()
	look := time.NewTicker(drain / 10)
	defer look.Stop()
	var deadline time.Time
	for {
		select {
		case <-done:
			return
		case <-look.C:
		}
		switch {
		case !r.failed():
		case deadline.IsZero():
			deadline = time.Now().Add(drain)
		case time.Now().After(deadline):
			stop(errStopped)
		}
	}
}

// sent notes how a request ended.
func (r *run) sent(it *item, what outcome, err error) {
	if errors.Is(err, errStopped) {
		return
	}
	if err != nil {
		r.fail(fmt.Errorf("%s: %w", it.ID(), err))
		return
	}
	r.mu.Lock()
	it.outcome, it.done = what, true
	r.counts[what]++
	done := r.counts[created] + r.counts[configured] + r.counts[unchanged]
	r.mu.Unlock()
	r.reporter.Report(runner.Report{
		Type: runner.TypeProgress, Object: it.ID(), Message: it.ID() + " " + what.String(), Done: done, Total: len(r.manifests),
	})
}

func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

func (r *run) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.errs) > 0
}

// ended tells what was under way when the context ended.
func (r *run) ended(cause, err error) error {
	if timeout := (*runner.TimeoutError)(nil); errors.As(err, &timeout) && timeout.For != "" {
		return err // says what it waited for
	}
	if len(r.errs) > 0 && !errors.Is(r.errs[0], context.Canceled) && !errors.Is(r.errs[0], context.DeadlineExceeded) && !errors.Is(r.errs[0], cause) {
		return fmt.Errorf("%w; before, %w", cause, r.errs.err())
	}
	var open []string
	for _, it := range r.items {
		if !it.done {
			open = append(open, it.ID())
		}
	}
	if len(open) == 0 {
		return cause
	}
	slices.Sort(open)
	more := ""
	if len(open) > mostNamed {
		more = fmt.Sprintf(" and %d more", len(open)-mostNamed)
		open = open[:mostNamed]
	}
	return fmt.Errorf("%w; not applied yet: %s%s", cause, strings.Join(open, ", "), more)
}

// ready waits until every object is.
func (r *run) ready(ctx context.Context) error {
	var targets []watch.Target
	done := 0
	for _, it := range r.items {
		settled := it.outcome == unchanged || it.phase <= ground && it.phase != first
		if settled && watch.Ready(it.answer).State == watch.Reached {
			done++
			continue
		}
		targets = append(targets, watch.TargetOf(it.answer))
	}
	return watch.Until(ctx, r.session, watch.Wait{
		Targets: targets,
		Judge:   func(_ watch.Target, u *unstructured.Unstructured) watch.Reading { return watch.Ready(u) },
		Changed: func(c watch.Change) {
			r.reporter.Report(runner.Report{
				Type: runner.TypeProgress, Object: c.Target.Object(), Done: done + c.Ready, Total: done + c.Total,
				Message: c.Target.String() + ": " + changeText(c.Reading),
			})
		},
		Notice: r.log,
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

func (r *run) log(message string) {
	r.reporter.Report(runner.Report{Type: runner.TypeLog, Message: message})
}

func (r *run) summary() string {
	var parts []string
	for what, n := range r.counts {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, outcome(what)))
		}
	}
	return strings.Join(parts, ", ")
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

// mostNamed is how many objects an error names.
const mostNamed = 5

// faults are the failures of several objects, told in one line.
type faults []error

func (f faults) err() error {
	if len(f) == 1 {
		return f[0]
	}
	var parts []string
	for _, err := range f[:min(len(f), mostNamed)] {
		parts = append(parts, err.Error())
	}
	text := fmt.Sprintf("%d objects failed: %s", len(f), strings.Join(parts, "; "))
	if more := len(f) - mostNamed; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return kubeerr.Reword(text, f...)
}
