package lint

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
)

// identity is what one object is known by: what group it is of, but not in which
// version. A release has no kind.
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

func checkOwners(p *pass) {
	all := map[identity][]sent{}
	var twice []identity // in the order of the plan
	add := func(id identity, x sent) {
		if all[id] = append(all[id], x); len(all[id]) == 2 {
			twice = append(twice, id)
		}
	}
	p.each(func(s *plan.Step) {
		if s.Helm != nil && !hasExpression(s, "helm", "release") {
			add(identity{cluster: p.cluster(s), namespace: p.namespace(s, s.Helm.Namespace), name: s.ReleaseName()}, sent{step: s})
		}
		for _, o := range p.Objects[s.Name] {
			if o.name() != "" {
				add(p.identity(s, o), sent{s, o})
			}
		}
	})
	for _, id := range twice {
		if all[id][0].object.Fields == nil {
			p.checkRelease(all[id], id)
		} else {
			p.checkTwice(all[id], id)
		}
	}
}

// sent is an object with the step that sends it.
type sent struct {
	step   *plan.Step
	object Object
}

// fallback reports whether one of the steps runs only when the other one fails: it
// does again what was not done.
func fallback(a, b *plan.Step) bool {
	after := func(s, of *plan.Step) bool {
		return slices.ContainsFunc(s.Needs, func(n plan.Need) bool { return n.On == plan.NeedFailure && n.Step == of.Name })
	}
	return after(a, b) || after(b, a)
}

// exclusive reports whether one of two steps runs, or that cannot be told.
func exclusive(a, b *plan.Step) bool {
	return a == b || conditional(a) || conditional(b) || fallback(a, b)
}

// apart reports whether two steps never run side by side.
func (l *linter) apart(a, b *plan.Step) bool {
	return l.graph.Follows(b.Name, a.Name) || l.graph.Follows(a.Name, b.Name) || a.Group != "" && a.Group == b.Group && a.Parallel == 1 ||
		a.ConcurrencyGroup != "" && a.ConcurrencyGroup == b.ConcurrencyGroup
}

func (p *pass) checkRelease(all []sent, id identity) {
	first := all[0].step
	var others []*plan.Step
	for _, x := range all[1:] {
		if !exclusive(first, x.step) {
			others = append(others, x.step)
		}
	}
	p.eachLocation(others, func(s *plan.Step) location {
		if s.Helm.Release != "" {
			return locationOf(s, "helm", "release")
		}
		return locationOf(s, "name")
	}, func(at location, steps []*plan.Step) {
		p.add(finding.Error, steps[0], at, "give each step another release or namespace, or make one step of them",
			"%s install the release %q in the namespace %s", together(first, steps), id.name, id.namespace)
	})
}

func (p *pass) checkTwice(all []sent, id identity) {
	first := all[0]
	steps, objects := map[finding.Severity][]*plan.Step{}, map[*plan.Step]Object{}
	for _, x := range all[1:] {
		a, b := first.step, x.step
		if exclusive(a, b) || sameRelease(p, a, b) {
			continue // a step's own duplicates are its own matter
		}
		severity := finding.Error
		switch {
		case isHook(first.object) || isHook(x.object):
			if p.apart(a, b) {
				continue
			}
			severity = finding.Warning
		case a.Apply != nil && b.Apply != nil && reflect.DeepEqual(first.object.Fields, x.object.Fields):
			severity = finding.Warning
		}
		steps[severity], objects[b] = append(steps[severity], b), x.object
	}
	for _, severity := range []finding.Severity{finding.Error, finding.Warning} {
		p.eachLocation(steps[severity], func(s *plan.Step) location { return objects[s].location(s, "metadata", "name") }, func(at location, steps []*plan.Step) {
			hint := "leave it to one of the steps"
			if isHook(objects[steps[0]]) {
				hint += ", or give them one concurrency_group"
			}
			if objects[steps[0]].kind() == "CustomResourceDefinition" && steps[0].Helm != nil {
				hint += ": crds: skip leaves out those of a chart's folder crds"
			}
			p.add(severity, steps[0], at, hint, "%s send the %s%s", together(first.step, steps), objects[steps[0]].is(), inNamespace(id))
		})
	}
}

// eachLocation calls f for each place that steps have in a file, with those that share
// it, in their order.
func (l *linter) eachLocation(steps []*plan.Step, at func(*plan.Step) location, f func(location, []*plan.Step)) {
	by, order := map[document.Pos][]*plan.Step{}, []location{}
	for _, s := range steps {
		place := at(s)
		if by[place.Pos] == nil {
			order = append(order, place)
		}
		if !slices.Contains(by[place.Pos], s) {
			by[place.Pos] = append(by[place.Pos], s)
		}
	}
	for _, place := range order {
		f(place, by[place.Pos])
	}
}

// together names steps as the subject of a sentence, up to five of them.
func together(first *plan.Step, others []*plan.Step) string {
	names := []string{strconv.Quote(first.Name)}
	for i, s := range others {
		if i == 4 && len(others) > 5 {
			return fmt.Sprintf("the steps %s and %d more", strings.Join(names, ", "), len(others)-i)
		}
		names = append(names, strconv.Quote(s.Name))
	}
	last := len(names) - 1
	if last == 1 {
		return fmt.Sprintf("the steps %s and %s both", names[0], names[1])
	}
	return fmt.Sprintf("the steps %s and %s all", strings.Join(names[:last], ", "), names[last])
}

func sameRelease(p *pass, a, b *plan.Step) bool {
	return a.Helm != nil && b.Helm != nil && a.ReleaseName() == b.ReleaseName() && p.namespace(a, a.Helm.Namespace) == p.namespace(b, b.Helm.Namespace)
}

func isHook(o Object) bool {
	return field(o.Fields, "metadata", "annotations", "helm.sh/hook") != nil
}

func inNamespace(id identity) string {
	if id.namespace == "" {
		return ""
	}
	return " in the namespace " + id.namespace
}

// kind is a kind of custom resources in one cluster.
type kind struct{ cluster, group, kind string }

func checkCRDs(p *pass) {
	brought := map[kind][]*plan.Step{}
	var kinds []kind // in the order of the plan
	p.each(func(s *plan.Step) {
		for _, o := range p.Objects[s.Name] {
			if o.kind() != "CustomResourceDefinition" || o.group() != "apiextensions.k8s.io" {
				continue
			}
			k := kind{p.cluster(s), text(o.Fields, "spec", "group"), text(o.Fields, "spec", "names", "kind")}
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
	p.each(func(s *plan.Step) {
		for _, o := range p.Objects[s.Name] {
			k := kind{p.cluster(s), o.group(), o.kind()}
			if before := users[k]; brought[k] != nil && (len(before) == 0 || before[len(before)-1].step != s) {
				users[k] = append(users[k], sent{s, o}) // the first one of the step will do
			}
		}
	})
	for _, k := range kinds {
		p.checkCRD(brought[k], users[k])
	}
}

// checkCRD looks for steps with objects of a kind that come after none of those
// that bring it.
func (p *pass) checkCRD(by []*plan.Step, users []sent) {
	ready := map[*plan.Step]bool{}
	for _, crd := range by {
		ready[crd] = true
		for _, u := range users {
			if p.graph.Follows(u.step.Name, crd.Name) {
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
		if p.graph.Follows(crd.Name, u.step.Name) {
			how, hint = "comes after this one", "turn their order around"
		}
		p.add(finding.Error, u.step, u.object.location(u.step), hint, "%s is of a kind whose CRD the step %q brings, which %s", u.object.is(), crd.Name, how)
	}
}
