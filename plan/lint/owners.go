package lint

import (
	"reflect"

	"github.com/kplan-dev/kplan/plan"
)

// identity is what one object is known by: what group it is of, but not in which
// version.
type identity struct{ cluster, group, kind, namespace, name string }

func (l *linter) identity(s *plan.Step, o Object) identity {
	id := identity{cluster: l.cluster(s), group: o.group(), kind: o.kind(), namespace: o.namespace(), name: o.name()}
	if id.namespace == "" && !clusterScoped[id.kind] {
		id.namespace = l.namespace(s, "")
	}
	return id
}

// clusterScoped are kinds that files of namespaced objects are not confused with:
// an object without a namespace has that of its step, or none.
var clusterScoped = map[string]bool{
	"Namespace": true, "CustomResourceDefinition": true, "ClusterRole": true, "ClusterRoleBinding": true, "PersistentVolume": true,
	"ValidatingWebhookConfiguration": true, "MutatingWebhookConfiguration": true, "StorageClass": true, "PriorityClass": true, "IngressClass": true,
	"APIService": true,
}

func checkOwners(l *linter) {
	releases := map[identity]*plan.Step{}
	objects := map[identity]sent{}
	l.each(func(s *plan.Step) {
		if s.Helm != nil && !given(s, "helm", "release") {
			l.checkRelease(s, releases)
		}
		for _, o := range l.Objects[s.Name] {
			if o.name() == "" {
				continue
			}
			id := l.identity(s, o)
			first, known := objects[id]
			if !known {
				objects[id] = sent{s, o}
				continue
			}
			l.checkTwice(first, sent{s, o}, id)
		}
	})
}

// sent is an object with the step that sends it.
type sent struct {
	step   *plan.Step
	object Object
}

func (l *linter) checkRelease(s *plan.Step, releases map[identity]*plan.Step) {
	id := identity{cluster: l.cluster(s), kind: "release", namespace: l.namespace(s, s.Helm.Namespace), name: s.ReleaseName()}
	first, known := releases[id]
	if !known {
		releases[id] = s
		return
	}
	if conditional(s) || conditional(first) {
		return // one or the other
	}
	at := spotOf(s, "name")
	if s.Helm.Release != "" {
		at = spotOf(s, "helm", "release")
	}
	l.add(Error, s, at, "give one of them another release or namespace, or make one step of both",
		"the step %q installs the release %q in the namespace %s too", first.Name, id.name, id.namespace)
}

func (l *linter) checkTwice(first, second sent, id identity) {
	a, b := first.step, second.step
	if a == b || conditional(a) || conditional(b) || sameRelease(l, a, b) {
		return // a step's own duplicates are its own matter
	}
	severity := Error
	switch {
	case isHook(first.object) || isHook(second.object):
		if l.order.isAfter(b.Name, a.Name) || l.order.isAfter(a.Name, b.Name) {
			return
		}
		severity = Warning
	case a.Apply != nil && b.Apply != nil && reflect.DeepEqual(first.object.Fields, second.object.Fields):
		severity = Warning
	}
	l.add(severity, b, second.object.spot(b, "metadata", "name"), "leave it to one of the steps",
		"the step %q sends the %s%s too", a.Name, second.object.is(), inNamespace(id))
}

func sameRelease(l *linter, a, b *plan.Step) bool {
	return a.Helm != nil && b.Helm != nil && a.ReleaseName() == b.ReleaseName() && l.namespace(a, a.Helm.Namespace) == l.namespace(b, b.Helm.Namespace)
}

func isHook(o Object) bool {
	hooks, _ := field(o.Fields, "metadata", "annotations").(map[string]any)
	return hooks["helm.sh/hook"] != nil
}

func inNamespace(id identity) string {
	if id.namespace == "" {
		return ""
	}
	return " in the namespace " + id.namespace
}

// kind is a kind of custom resources in one cluster.
type kind struct{ cluster, group, kind string }

func checkCRDs(l *linter) {
	brought := map[kind][]*plan.Step{}
	var kinds []kind // in the order of the plan
	l.each(func(s *plan.Step) {
		for _, o := range l.Objects[s.Name] {
			if o.kind() != "CustomResourceDefinition" || o.group() != "apiextensions.k8s.io" {
				continue
			}
			k := kind{l.cluster(s), text(o.Fields, "spec", "group"), text(o.Fields, "spec", "names", "kind")}
			if brought[k] == nil {
				kinds = append(kinds, k)
			}
			brought[k] = append(brought[k], s)
		}
	})
	if len(kinds) == 0 {
		return
	}
	users := map[kind][]sent{}
	l.each(func(s *plan.Step) {
		for _, o := range l.Objects[s.Name] {
			k := kind{l.cluster(s), o.group(), o.kind()}
			if before := users[k]; brought[k] != nil && (len(before) == 0 || before[len(before)-1].step != s) {
				users[k] = append(users[k], sent{s, o}) // the first one of the step will do
			}
		}
	})
	for _, k := range kinds {
		l.checkCRD(brought[k], users[k])
	}
}

// checkCRD looks for steps with objects of a kind that come after none of those
// that bring it.
func (l *linter) checkCRD(by []*plan.Step, users []sent) {
	ready := map[*plan.Step]bool{}
	for _, crd := range by {
		ready[crd] = true
		for _, u := range users {
			if l.order.isAfter(u.step.Name, crd.Name) {
				ready[u.step] = true
			}
		}
	}
	crd := by[0]
	for _, u := range users {
		if ready[u.step] || conditional(u.step) || conditional(crd) {
			continue
		}
		how, hint := "runs side by side with this one", "add "+crd.Name+" to the needs of "+u.step.Name
		if l.order.isAfter(crd.Name, u.step.Name) {
			how, hint = "comes after this one", "turn their order around"
		}
		l.add(Error, u.step, u.object.spot(u.step), hint, "%s is of a kind whose CRD the step %q brings, which %s", u.object.is(), crd.Name, how)
	}
}
