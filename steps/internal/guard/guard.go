// Package guard finds which objects of a plan the plan's own webhooks will
// intercept, so that nobody has to name the steps that wait for one another's
// webhooks.
//
// It reads manifests: webhook configurations and CRDs among the objects of the
// steps, and the objects of the same and of later steps. It does not see webhooks
// that an operator configures when it runs, nor objects that controllers
// create, and it does not ask whether a webhook answers.
package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/apply"
	"github.com/kplan-dev/kplan/steps/helm"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/match"
)

// Source returns the objects that a step sends; none for steps that send none.
type Source func(context.Context, plan.Step) ([]manifest.Object, error)

// Find tells which steps' objects are intercepted by webhooks that the same
// step, or one that does not come after it, brings to the same cluster; known
// tells what is known of the clusters, by their names in the plan. Steps that are
// skipped, and those whose objects cannot be had, are left out; the error joins
// why they cannot.
func Find(ctx context.Context, p *plan.Plan, source Source, known func(cluster string) Known) ([]runner.Guard, error) {
	var (
		finders  []*finder
		problems []error
		graph    = p.Graph()
	)
	for _, s := range p.Steps {
		if s.Skip != "" {
			continue
		}
		objects, err := source(ctx, s)
		if err != nil {
			problems = append(problems, fmt.Errorf("step %q: %w", s.Name, err))
		}
		cluster := p.StepCluster(s)
		i := slices.IndexFunc(finders, func(f *finder) bool { return p.SameCluster(f.cluster, cluster) })
		if i < 0 {
			i = len(finders)
			k := known(cluster)
			finders = append(finders, &finder{graph: graph, cluster: cluster, known: k, kinds: newResolver(k.Served), namespaces: map[string]map[string]string{}})
		}
		finders[i].steps = append(finders[i].steps, &step{name: s.Name, helm: s.Helm, objects: manifest.Bare(objects)})
	}
	var guards []runner.Guard
	for _, f := range finders {
		for _, s := range f.steps {
			problems = append(problems, f.read(s)...)
		}
		f.matcher = match.Matcher{Cluster: match.Cluster{Labels: f.labels(f.known.Labels), Resources: &f.kinds.resources}}
		guards = append(guards, f.guards(ctx)...)
	}
	return guards, errors.Join(problems...)
}

// finder holds the objects of a plan for one cluster.
type finder struct {
	graph      *plan.Graph
	cluster    string
	known      Known
	steps      []*step
	kinds      *resolver
	namespaces map[string]map[string]string
	matcher    match.Matcher
}

type step struct {
	name    string
	helm    *plan.Helm // when Helm sends the objects
	objects []*unstructured.Unstructured
	entries []entry
}

// read takes note of what a step's objects mean for other objects. The errors
// say which of them mean nothing.
func (f *finder) read(s *step) []error {
	var problems []error
	problem := func(err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("step %q: %w", s.name, err))
		}
	}
	for _, o := range s.objects {
		switch {
		case kinds.IsDefinition(o):
			problem(f.kinds.add(o))
		case o.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Namespace"}:
			f.namespaces[o.GetName()] = o.GetLabels()
		}
		entries, err := webhook.EntriesOf(o)
		problem(err)
		for _, e := range entries {
			s.entries = append(s.entries, entry{e, o})
		}
	}
	return problems
}

// labels returns those of a namespace that the plan makes, else of one that the
// cluster has.
func (f *finder) labels(live func(string) (map[string]string, bool)) func(string) (map[string]string, bool) {
	return func(name string) (map[string]string, bool) {
		if l, ok := f.namespaces[name]; ok {
			return l, true
		}
		if live != nil {
			return live(name)
		}
		return nil, false
	}
}

// guards pairs every step that brings webhooks with those that do not come before it.
func (f *finder) guards(ctx context.Context) []runner.Guard {
	var guards []runner.Guard
	for _, by := range f.steps {
		if len(by.entries) == 0 {
			continue
		}
		before, after := f.graph.Ancestors(by.name), f.graph.Descendants(by.name)
		for _, s := range f.steps {
			if slices.Contains(before, s.name) {
				continue // done before the webhooks are there
			}
			// Steps that do not wait for each other may come in any order.
			ordered := s == by || slices.Contains(after, s.name)
			guards = append(guards, f.pair(ctx, by, s, ordered)...)
		}
	}
	return guards
}

// pair tells which objects of s the webhooks of by intercept: those that
// certainly are first, then those that may be.
func (f *finder) pair(ctx context.Context, by, s *step, ordered bool) []runner.Guard {
	sure := runner.Guard{Step: s.name, By: by.name}
	maybe := runner.Guard{Step: s.name, By: by.name, Maybe: true}
	for _, o := range s.objects {
		r := f.kinds.request(o)
		var calls, may []string
		for _, e := range by.entries {
			switch outcome := f.outcome(ctx, e.Entry, r); {
			case outcome == match.Skips:
			case outcome == match.Maybe, !ordered, s == by && !e.precedes(s, o):
				may = append(may, e.Name)
			default:
				calls = append(calls, e.Name)
			}
		}
		note(&sure, calls)
		note(&maybe, may)
	}
	return slices.DeleteFunc([]runner.Guard{sure, maybe}, func(g runner.Guard) bool { return g.Objects == 0 })
}

// note adds an object that webhooks intercept, if there are any.
func note(g *runner.Guard, webhooks []string) {
	if len(webhooks) == 0 {
		return
	}
	g.Objects++
	g.Webhooks = append(g.Webhooks, webhooks...)
	slices.Sort(g.Webhooks)
	g.Webhooks = slices.Compact(g.Webhooks)
}

// outcome predicts what the API server does when the object is created.
func (f *finder) outcome(ctx context.Context, e webhook.Entry, r match.Request) match.Outcome {
	if e.Kind != webhook.Conversion {
		return f.matcher.Match(ctx, e, r).Outcome
	}
	if e.Converts == r.Kind.GroupKind() && f.kinds.converted(r.Kind) {
		return match.Calls
	}
	return match.Skips
}

// request is the creation of a planned object.
func (k *resolver) request(o *unstructured.Unstructured) match.Request {
	gvk := o.GroupVersionKind()
	resource, namespaced := k.resource(gvk)
	r := match.Request{Operation: admissionv1.Create, Resource: resource, Kind: gvk, Name: o.GetName(), Object: o, Planned: true}
	if namespaced {
		r.Namespace = o.GetNamespace()
	} else if o.GetNamespace() != "" { // the step's, which does not concern it
		r.Object = o.DeepCopy()
		r.Object.SetNamespace("")
	}
	return r
}

// entry is a webhook with the object that configures it.
type entry struct {
	webhook.Entry
	from *unstructured.Unstructured
}

// precedes reports whether a step which brings the webhook and the object o as
// well configures the webhook before it sends o. Otherwise a first install is
// not judged, and later runs are. Conversions come with the CRD, without which
// there are no objects.
func (e entry) precedes(s *step, o *unstructured.Unstructured) bool {
	switch {
	case e.Kind == webhook.Conversion:
		return true
	case s.helm != nil:
		return helm.Before(charts.EngineOf(*s.helm), e.from, o)
	default:
		return apply.Before(e.from.GroupVersionKind().GroupKind(), o.GroupVersionKind().GroupKind())
	}
}
