package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/guard"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
)

// Bound is how long a look before a run takes at most, if nothing else is asked for. A third
// of it is left when the steps' objects have been read: a chart from afar may take longer
// than anybody wants to wait.
const Bound = 3 * time.Second

// Run is a plan that is about to run.
type Run struct {
	Plan *plan.Plan
	// Conns are the ways to the plan's clusters.
	Conns map[string]*cluster.Conn
	// Objects reads what a step sends, or has it read already.
	Objects func(context.Context, plan.Step, charts.Capabilities) ([]manifest.Object, error)
	// Chart is the chart of a helm step; nil when there is none yet.
	Chart func(plan.Step) *charts.Chart
	// Home is the cluster that has the records of the plan's runs; HasHome says whether
	// one has.
	Home    string
	HasHome bool
	// Strict looks also for what a step finds by itself before it writes: releases and
	// objects that are others'.
	Strict bool
	// Unread looks also for what cannot be read or rendered, which steps find by themselves.
	Unread bool
	// Within is how long the look takes at most; 0 is Bound.
	Within time.Duration
}

// Look tells what keeps a plan's steps from doing their work, as soon as it is found: rights
// that are missing, webhooks that nobody is behind, quotas that are full, pods that are not
// admitted, releases of other charts. It sends no dry run and writes nothing but reviews of
// rights. It ends with ctx, or after Within; what is not known then is told too. found is
// called by one goroutine at a time.
func (r Run) Look(ctx context.Context, found func(finding.Finding)) {
	r.Within = cmp.Or(r.Within, Bound)
	ctx, cancel := context.WithTimeoutCause(ctx, r.Within, errLate)
	defer cancel()
	l := &looking{Run: r, found: found}
	var all sync.WaitGroup
	names := slices.Sorted(maps.Keys(r.Conns))
	for i, name := range names {
		if slices.ContainsFunc(names[:i], func(other string) bool { return r.Plan.SameCluster(name, other) }) {
			continue
		}
		all.Go(func() { l.cluster(ctx, name) })
	}
	all.Wait()
	l.late(ctx)
}

var errLate = errors.New("it is not known in time")

// looking is one look before a run.
type looking struct {
	Run

	mu    sync.Mutex
	found func(finding.Finding)
	// unknown says what could not be told.
	unknown []string
}

// find tells of something.
func (l *looking) find(f finding.Finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found(f)
}

// miss notes that something could not be told in time.
func (l *looking) miss(ctx context.Context, what string) {
	if !errors.Is(context.Cause(ctx), errLate) {
		return // nobody wants to know any more, or it is another fault, which its step tells
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unknown = append(l.unknown, what)
}

// late tells what was not known in time.
func (l *looking) late(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.unknown)
	if l.unknown = slices.Compact(l.unknown); len(l.unknown) > 0 && ctx.Err() != nil {
		l.found(finding.Finding{Rule: Unchecked, Severity: finding.Note, Message: fmt.Sprintf("not known within %s: %s", l.Within, some(l.unknown))})
	}
}

// one is a cluster with the steps on it, as far as they are known.
type one struct {
	*looking
	name    string
	session *cluster.Session
	has     charts.Capabilities
	steps   []*known
	kinds   resources
	there   sync.Map // objects that were looked for, by their ID
}

// known is a step with its objects.
type known struct {
	plan.Step
	// namespace is the default one.
	namespace string
	objects   []manifest.Object
	err       error
}

// bare are the step's objects without their places.
func (k *known) bare() []*unstructured.Unstructured { return manifest.Bare(k.objects) }

// cluster looks at one cluster.
func (l *looking) cluster(ctx context.Context, name string) {
	conn := l.Conns[name]
	if conn.Now() == nil && (!conn.Local() || !l.first(name)) {
		return // a step makes its kubeconfig, or the cluster itself
	}
	api, err := conn.Connect(ctx)
	if err != nil {
		l.unreachable(ctx, name, err)
		return
	}
	served, version, err := api.Serves(ctx)
	if err != nil {
		l.miss(ctx, l.called(name))
		return
	}
	session, err := api.Session(cluster.Options{})
	if err != nil {
		return // its steps say why
	}
	o := &one{looking: l, name: name, session: session, has: charts.CapabilitiesOf(version, served)}
	o.version(version)
	soon, cancel := context.WithTimeoutCause(ctx, l.Within*2/3, errLate)
	o.read(soon)
	cancel()
	o.know(served)
	var all sync.WaitGroup
	for _, look := range []func(context.Context){o.rights, o.webhooks, o.room, o.releases} {
		all.Go(func() { look(ctx) })
	}
	all.Wait()
}

// called names a cluster for people.
func (l *looking) called(name string) string {
	if name == "" {
		return "the cluster"
	}
	return "the cluster " + name
}

// first reports whether a step that waits for no other works on a cluster.
func (l *looking) first(name string) bool {
	return slices.ContainsFunc(l.Plan.Steps, func(s plan.Step) bool {
		return kinds.Runs(s) && len(s.Needs) == 0 && !s.Last && l.Plan.SameCluster(l.Plan.StepCluster(s), name)
	})
}

// unreachable tells of a cluster that does not answer, at the first step that works on it.
func (l *looking) unreachable(ctx context.Context, name string, err error) {
	if ctx.Err() != nil {
		l.miss(ctx, l.called(name))
		return
	}
	for _, s := range l.Plan.Steps {
		if l.Plan.SameCluster(l.Plan.StepCluster(s), name) && kinds.Runs(s) {
			f := Find(Reach, s, hintOf(err), err.Error(), "cluster")
			l.find(f)
			return
		}
	}
}

// read reads the objects of the steps, side by side.
func (o *one) read(ctx context.Context) {
	var all sync.WaitGroup
	for _, s := range o.Plan.Steps {
		at := o.Plan.StepCluster(s)
		if !kinds.Runs(s) || !o.Plan.SameCluster(at, o.name) || o.Conns[at] == nil {
			continue
		}
		k := &known{Step: s, namespace: o.Conns[at].Namespace()}
		o.steps = append(o.steps, k)
		if len(s.Deferred()) > 0 {
			k.err = errDeferred
			continue
		}
		all.Go(func() { k.objects, k.err = o.objects(ctx, s) })
	}
	all.Wait()
	for _, k := range o.steps {
		switch {
		case k.err == nil:
		case ctx.Err() != nil:
			o.miss(ctx, fmt.Sprintf("what step %q sends", k.Name))
		case o.Unread && !errors.Is(k.err, errDeferred):
			o.unread(k)
		}
	}
}

// unread tells of a step whose objects cannot be read.
func (o *one) unread(k *known) {
	rule, fields := Refused, []any{string(k.Kind())}
	if k.Helm != nil {
		rule, fields = Chart, []any{"helm", "chart"}
	}
	o.find(Find(rule, k.Step, hintOf(k.err), k.err.Error(), fields...))
}

// know takes in what the cluster serves, and what the plan's objects define.
func (o *one) know(served []*metav1.APIResourceList) {
	var objects []*unstructured.Unstructured
	for _, s := range o.steps {
		objects = append(objects, s.bare()...)
	}
	o.kinds = resources{of: guard.Resources(served, objects), served: served, objects: objects}
}

var errDeferred = errors.New("it asks for what is known when it starts")

// objects reads what a step sends, in a goroutine that may outlast ctx: rendering knows of
// no context.
func (o *one) objects(ctx context.Context, s plan.Step) ([]manifest.Object, error) {
	type answer struct {
		objects []manifest.Object
		err     error
	}
	read := make(chan answer, 1) // room for one, so that the goroutine ends when it has read
	go func() {
		objects, err := o.Objects(ctx, s, o.has)
		read <- answer{objects, err}
	}()
	select {
	case a := <-read:
		return a.objects, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
