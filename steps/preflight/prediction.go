package preflight

import (
	"cmp"
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/match"
)

// write is an object that the run writes.
type write struct {
	step   *known
	object *unstructured.Unstructured
	create match.Request
	// of is the object that makes this one, "" for one that a step sends.
	of string
	// by is that object; its existence says whether this one is to be made.
	by *unstructured.Unstructured
}

// prediction is which webhooks are called for what the run writes.
type prediction struct {
	matcher *match.Matcher
	writes  []write
}

// prediction gathers what the steps write: their objects, the records of releases, and the
// pods of workloads.
func (o *one) prediction(ctx context.Context) *prediction {
	p := &prediction{}
	for _, s := range o.steps {
		if s.Apply == nil && s.Helm == nil {
			continue
		}
		for _, u := range append(s.bare(), o.own(s)...) {
			p.writes = append(p.writes, o.write(s, u, nil))
			if pod := podOf(u); pod != nil {
				p.writes = append(p.writes, o.write(s, pod.object(), u))
			}
		}
	}
	known := &match.Resources{}
	_ = known.AddDiscovery(o.kinds.served...)
	for _, u := range o.kinds.objects {
		if kinds.IsDefinition(u) {
			_ = known.AddCRD(u) // one that means nothing defines no kind
		}
	}
	p.matcher = &match.Matcher{Cluster: match.Cluster{Labels: o.labels(ctx, p.writes), Resources: known}}
	return p
}

// own are the objects of a helm step that its chart does not have: its release's record,
// and its namespace.
func (o *one) own(s *known) []*unstructured.Unstructured {
	if s.Helm == nil {
		return nil
	}
	namespace := cmp.Or(s.Helm.Namespace, s.namespace)
	record := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1"}}
	record.SetNamespace(namespace)
	record.SetName("sh.helm.release.v1." + s.ReleaseName() + ".v1")
	record.SetLabels(map[string]string{"owner": "helm", "name": s.ReleaseName()})
	all := []*unstructured.Unstructured{record}
	if s.Helm.CreateNamespace {
		made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		made.SetName(namespace)
		made.SetLabels(map[string]string{"name": namespace})
		all = append(all, made)
	}
	return all
}

// write is the creation of an object.
func (o *one) write(s *known, u, by *unstructured.Unstructured) write {
	gvk := u.GroupVersionKind()
	resource, namespaced := o.kinds.of(gvk)
	r := match.Request{Operation: admissionv1.Create, Resource: resource, Kind: gvk, Name: u.GetName(), Object: u, Planned: true}
	if namespaced {
		r.Namespace = u.GetNamespace()
	} else if u.GetNamespace() != "" { // the step's, which does not concern it
		r.Object = u.DeepCopy()
		r.Object.SetNamespace("")
	}
	w := write{step: s, object: r.Object, create: r, by: by}
	if by != nil {
		w.of = nameOf(by)
	}
	return w
}

// labels are those of the namespaces that are written to: as the plan has them, else as the
// cluster has. Of one that is made on the way only its name is known.
func (o *one) labels(ctx context.Context, writes []write) func(string) (map[string]string, bool) {
	all := map[string]map[string]string{}
	live := o.session.Cluster.Labels(ctx)
	for _, w := range writes {
		namespace := w.create.Namespace
		if _, known := all[namespace]; known || namespace == "" {
			continue
		}
		labels, there := live(namespace)
		if !there {
			labels = map[string]string{}
		}
		all[namespace] = labels
	}
	for _, u := range o.kinds.objects {
		if u.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
			all[u.GetName()] = u.GetLabels()
		}
	}
	return func(name string) (map[string]string, bool) {
		labels, known := all[name]
		return labels, known
	}
}

// meets predicts whether a webhook is called when an object is created, or changed.
func (p *prediction) meets(ctx context.Context, e webhook.Entry, w write) match.Outcome {
	outcome := p.matcher.Match(ctx, e, w.create).Outcome
	if outcome == match.Skips && w.by == nil {
		change := w.create
		change.Operation, change.OldObject = admissionv1.Update, w.object // most of it stays as it was
		outcome = p.matcher.Match(ctx, e, change).Outcome
		if outcome == match.Calls {
			outcome = match.Maybe // it is called if the object is there, and changes
		}
	}
	return outcome
}

// String says for people what is written.
func (w write) String() string {
	if w.of != "" {
		return "pods of " + w.of
	}
	return nameOf(w.object)
}

func nameOf(u *unstructured.Unstructured) string {
	return webhook.Object{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}.String()
}
