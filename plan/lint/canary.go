package lint

import (
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/finding"
)

// place is a namespace of one of the plan's clusters.
type place struct{ cluster, namespace string }

// checkCanaries looks for canaries in namespaces that only later steps make.
func checkCanaries(p *pass) {
	makers := p.makers()
	p.each(func(s *plan.Step) {
		for _, o := range p.Canaries[s.Name] {
			by := makers[place{p.cluster(s), o.namespace()}]
			if len(by) == 0 || !p.allFollow(by, s) {
				continue
			}
			p.add(finding.Warning, s, o.location(s, "metadata", "namespace"),
				"write another namespace, such as default, or let "+s.Name+" need a step that makes this one",
				"the canary waits for the namespace %q, which the step %q makes, and that comes after %q", o.namespace(), by[0].Name, s.Name)
			return // one finding for the step will do
		}
	})
}

// makers are the steps that make each namespace, in the order of the plan.
func (l *linter) makers() map[place][]*plan.Step {
	makers := map[place][]*plan.Step{}
	l.each(func(s *plan.Step) {
		add := func(namespace string) {
			at := place{l.cluster(s), namespace}
			makers[at] = append(makers[at], s)
		}
		if s.Helm != nil && s.Helm.CreateNamespace && s.Helm.Namespace != "" {
			add(s.Helm.Namespace)
		}
		for _, o := range l.Objects[s.Name] {
			if o.kind() == "Namespace" && o.group() == "" {
				add(o.name())
			}
		}
	})
	return makers
}

// allFollow reports whether all of the steps come after one.
func (l *linter) allFollow(steps []*plan.Step, one *plan.Step) bool {
	for _, s := range steps {
		if !l.graph.Follows(s.Name, one.Name) {
			return false
		}
	}
	return true
}
