package rights

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// deletion adds what a delete step needs.
func (c *computer) deletion(s Step) {
	n := need{step: s.Name, purpose: "to delete"}
	namespace := cmp.Or(s.Delete.Namespace, s.Namespace)
	switch {
	case s.Delete.Release != "":
		c.add(n, secrets, namespace, nil, "get", "list", "update", "delete")
		objects := c.installed(s.Delete.Release, namespace)
		if len(objects) == 0 {
			c.note(s.Name, true, "no step installs the release %s: what it has is known by the cluster only", s.Delete.Release)
		}
		for _, o := range objects {
			c.object(n, o, "get", "list", "watch", "delete")
		}
	case s.Delete.Resource != "":
		typ, name, _ := strings.Cut(s.Delete.Resource, "/")
		r, namespaced, known := c.Kinds.named(typ)
		if !known {
			c.note(s.Name, true, "nobody knows the type %q that it deletes", typ)
			return
		}
		if !namespaced {
			namespace = ""
		}
		c.add(n, r, namespace, nil, "list") // one that is named is found among all
		c.add(n, r, namespace, one(name), "get", "watch", "delete")
	default:
		for _, o := range s.Objects {
			c.object(n, o, "get", "list", "watch", "delete")
		}
	}
}

// installed are the objects of a release that a step of the plan installs.
func (c *computer) installed(release, namespace string) []*unstructured.Unstructured {
	for _, s := range c.Steps {
		if s.Helm != nil && s.ReleaseName() == release && cmp.Or(s.Helm.Namespace, s.Namespace) == namespace {
			return s.Objects
		}
	}
	return nil
}
