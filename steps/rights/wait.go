package rights

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/probe"
)

// withPods are resources whose objects make pods, or are some.
var withPods = []schema.GroupResource{
	pods, deployments, statefulSets, claims,
	{Group: "apps", Resource: "daemonsets"},
	{Group: "apps", Resource: "replicasets"},
	{Group: "batch", Resource: "jobs"},
}

// wait adds what a wait step needs.
func (c *computer) wait(s Step) {
	typ, name, _ := strings.Cut(s.Wait.Resource, "/")
	r, namespaced, known := c.Kinds.named(typ)
	if !known {
		c.note(s.Name, true, "nobody knows the type %q that it waits for", typ)
		return
	}
	namespace := ""
	if namespaced {
		namespace = cmp.Or(s.Wait.Namespace, s.Namespace)
	}
	c.add(need{step: s.Name, purpose: "to wait for " + s.Wait.Resource}, r, namespace, one(name), "get", "list", "watch")
	if slices.Contains(withPods, r) {
		c.explain(s.Name, namespace)
	}
}

// one is a list of one name, or nil for all.
func one(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// output adds what an output is read from.
func (c *computer) output(s Step, name string) {
	o := s.Outputs[name]
	typ, object, _ := strings.Cut(o.Resource, "/")
	r, namespaced, known := c.Kinds.named(typ)
	if !known {
		c.note(s.Name, true, "nobody knows the type %q that its output %q is read from", typ, name)
		return
	}
	namespace := ""
	if namespaced {
		namespace = cmp.Or(o.Namespace, s.Step.Namespace(), s.Namespace)
	}
	c.add(need{step: s.Name, purpose: "to read its output " + name}, r, namespace, one(object), "get")
}

// webhook adds what a webhook step needs: to see how the webhooks stand, and to ask them
// by dry runs, for which the API server wants the rights of a real request.
func (c *computer) webhook(s Step) {
	c.survey(s.Name)
	n := need{step: s.Name, purpose: "to find the webhooks"}
	c.add(n, namespaces, "", nil, "list")
	if s.Webhook.Configuration == "" {
		c.add(n, definitions, "", nil, "get", "list", "watch")
	}
	dry := need{step: s.Name, purpose: "to ask webhooks by dry runs"}
	for _, o := range s.Objects {
		r, namespace := c.Kinds.at(o)
		c.add(dry, r, namespace, nil, "create")
		c.add(dry, r, namespace, []string{o.GetName()}, "get", "patch")
	}
	mine := c.meant(s)
	if len(mine) == 0 {
		c.note(s.Name, true, "nobody has its webhooks yet: the rights to ask them by dry runs, and to see what stands behind them, are not known")
	}
	for _, e := range mine {
		c.behind(s.Name, e)
		c.probe(dry, e)
	}
}

// probe adds what it takes to ask a webhook with made-up objects (webhook/probe).
func (c *computer) probe(dry need, e webhook.Entry) {
	if e.Kind == webhook.Conversion {
		plural, group, _ := strings.Cut(e.Configuration, ".")
		r := schema.GroupResource{Group: group, Resource: plural}
		c.add(dry, r, "", nil, "list")
		c.add(dry, r, c.within(r, metav1.NamespaceDefault), nil, "create")
		return
	}
	for _, t := range probe.Targets(e) {
		namespace := ""
		if s := e.Client.Service; s != nil && (e.NamespaceSelector == nil || len(e.NamespaceSelector.MatchLabels)+len(e.NamespaceSelector.MatchExpressions) == 0) {
			namespace = c.within(t.GroupResource(), s.Namespace)
		}
		c.add(dry, t.GroupResource(), namespace, nil, "create")
	}
}

// within is the namespace of a made-up object; "" for a resource without namespaces.
func (c *computer) within(r schema.GroupResource, namespace string) string {
	if known, namespaced, ok := c.Kinds.named(r.String()); ok && known == r && !namespaced {
		return ""
	}
	return namespace
}

// meant are the webhooks that a webhook step means: of the plan's objects, or else of the
// cluster.
func (c *computer) meant(s Step) []webhook.Entry {
	w := s.Webhook
	picks := func(e webhook.Entry, release string) bool {
		switch {
		case w.Release != "":
			return release == w.Release
		case w.Configuration != "":
			return w.Configuration == e.Configuration
		case w.Service != "":
			return w.Service == e.Service()
		}
		selector, err := labels.Parse(w.Selector)
		return w.Selector != "" && err == nil && selector.Matches(labels.Set(e.Labels)) // which ones files mean is not known here
	}
	var mine []webhook.Entry
	for _, other := range c.Steps {
		for _, e := range entriesOf(other) {
			release := ""
			if other.Helm != nil {
				release = other.ReleaseName()
			}
			if picks(e, release) {
				mine = append(mine, e)
			}
		}
	}
	if len(mine) > 0 {
		return mine
	}
	for _, e := range c.Live {
		_, release, _ := strings.Cut(e.Owner.Release, "/")
		if picks(e, release) {
			mine = append(mine, e)
		}
	}
	return mine
}

// entriesOf are the webhooks that the objects of a step configure.
func entriesOf(s Step) []webhook.Entry {
	var all []webhook.Entry
	for _, o := range s.Objects {
		entries, err := webhook.EntriesOf(o)
		if err == nil { // one that means nothing configures none
			all = append(all, entries...)
		}
	}
	return all
}
