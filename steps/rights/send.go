package rights

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/applyset"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/stall"
)

// helm adds what a helm step needs. Records of releases have the number of their revision
// in their name, so that rights to them are to all Secrets of the namespace.
func (c *computer) helm(s Step) {
	namespace := cmp.Or(s.Helm.Namespace, s.Namespace)
	c.add(need{step: s.Name, purpose: "to record the release"}, secrets, namespace, nil, "get", "list", "create", "update", "delete")
	if s.Helm.CreateNamespace {
		c.add(need{step: s.Name, purpose: "to make the namespace"}, namespaces, "", nil, "create")
		c.add(need{step: s.Name, purpose: "to make the namespace"}, namespaces, "", []string{namespace}, "get")
	}
	n := need{step: s.Name, purpose: "to install the chart"}
	later := need{step: s.Name, purpose: "to delete what a later version of the chart does not have, and what is taken back", optional: true}
	for _, o := range s.Objects {
		c.object(n, o, "get", "create", "patch")
		if _, hook := o.GetAnnotations()["helm.sh/hook"]; hook { // it is deleted before it is made anew
			c.object(n, o, "delete")
		} else {
			c.object(later, o, "delete")
		}
		if s.Helm.TakeOwnership || s.Helm.Engine == plan.Helm4 {
			c.object(n, o, "update")
		}
	}
	if s.Helm.Wait != plan.WaitNone { // hooks are waited for then, and definitions in any case
		c.follow(s, s.Objects)
	}
	c.escalation(s, s.Objects)
}

// apply adds what an apply step needs. Server-side apply is a patch, and takes the right to
// create too where the object is not there.
func (c *computer) apply(s Step) {
	n := need{step: s.Name, purpose: "to apply its objects"}
	for _, o := range s.Objects {
		c.object(n, o, "get", "create", "patch")
		if s.Apply.OnImmutable == plan.RecreateImmutable {
			c.object(n, o, "delete")
		}
	}
	if s.Apply.Prune {
		c.prune(s)
	}
	if s.Apply.Wait == plan.WaitReady {
		c.follow(s, s.Objects)
	} else {
		c.follow(s, definitionsAmong(s.Objects))
	}
	c.escalation(s, s.Objects)
}

// prune adds what it takes to keep a step's apply set, and to delete its members that go:
// they are found by their label, and nobody knows their names before.
func (c *computer) prune(s Step) {
	namespace := cmp.Or(s.Apply.Namespace, s.Namespace)
	set := applyset.Of(c.Plan, s.Step, namespace)
	n := need{step: s.Name, purpose: "to prune"}
	c.add(n, secrets, set.Namespace, nil, "create")
	c.add(n, secrets, set.Namespace, []string{set.Name}, "get", "patch")
	for _, o := range s.Objects {
		r, at := c.Kinds.at(o)
		c.add(n, r, at, nil, "get", "list", "watch", "delete")
	}
}

// object adds verbs on one object. Who may create an object cannot be bound to its name.
func (c *computer) object(n need, o *unstructured.Unstructured, verbs ...string) {
	r, namespace := c.Kinds.at(o)
	for _, verb := range verbs {
		names := []string{o.GetName()}
		if verb == "create" {
			names = nil
		}
		c.add(n, r, namespace, names, verb)
	}
	if group := o.GroupVersionKind().Group; kinds.Custom(group) { // for its schema
		definition := []string{r.Resource + "." + group}
		c.add(need{step: n.step, purpose: "to read definitions of custom resources", optional: true}, definitions, "", definition, "get")
	}
}

// definitionsAmong are the CRDs, which are waited for whatever a step says.
func definitionsAmong(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool { return !kinds.IsDefinition(o) })
}

// follow adds what it takes to see when objects are ready, and why they are not.
func (c *computer) follow(s Step, objects []*unstructured.Unstructured) {
	n := need{step: s.Name, purpose: "to see when its objects are ready"}
	for _, o := range objects {
		c.object(n, o, "get", "list", "watch")
		if _, namespace := c.Kinds.at(o); stall.Concerns(o) {
			c.explain(s.Name, namespace)
		}
	}
}

// explain adds what tells why objects of a namespace do not become ready.
func (c *computer) explain(step, namespace string) {
	n := need{step: step, purpose: "to say why something does not become ready", optional: true}
	for _, r := range []schema.GroupResource{pods, events, claims} {
		c.add(n, r, namespace, nil, "list", "watch")
	}
	c.add(n, podLogs, namespace, nil, "get")
}
