package teardown

import (
	"cmp"
	"maps"
	"slices"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/removal"
)

// The steps that a teardown adds to those of the plan: custom resources that go with
// their definitions come first, while all operators are there, and namespaces last.
const (
	customResources = "custom-resources"
	namespaces      = "namespaces"
)

// deletions makes the plan that deletes what was found. Each step needs those that
// needed it.
func (l *look) deletions() *plan.Plan {
	p := *l.Plan
	p.Steps, p.Finally = nil, nil
	deletes := map[string]bool{}
	for _, f := range l.found {
		deletes[f.step.Name] = f.there() && f.goesAt()
	}
	first := l.before()
	p.Steps = append(p.Steps, first...)
	for _, f := range slices.Backward(l.found) {
		if !deletes[f.step.Name] {
			continue
		}
		s := f.deletion(l.Plan.Dir, l.DeleteCRDs)
		s.Delete.Beside = l.beside(f.cluster)
		s.Needs = nil
		for _, name := range l.after(f.step.Name, deletes) {
			s.Needs = append(s.Needs, plan.Need{Step: name})
		}
		if len(s.Needs) == 0 {
			s.Needs = needs(first)
		}
		p.Steps = append(p.Steps, s)
	}
	p.Steps = append(p.Steps, l.last(needs(p.Steps))...)
	return &p
}

// deletion is the step that takes away what the step made.
func (f *found) deletion(dir string, crds bool) plan.Step {
	s := f.step
	d := &plan.Delete{}
	if f.release != "" {
		d.Release, d.Namespace, d.DeleteCRDs = f.releaseName.Name, f.releaseName.Namespace, crds
	} else {
		d.Objects = references(f.goes)
	}
	s.Helm, s.Apply, s.Delete = nil, nil, d
	s.Dir = cmp.Or(s.Dir, dir)
	s.When, s.Skip, s.Outputs, s.Pending, s.Last = nil, "", nil, nil, false
	return s
}

// references name objects as a plan does.
func references(objects []removal.Object) []map[string]any {
	var all []map[string]any
	for _, o := range objects {
		meta := map[string]any{"name": o.GetName()}
		if ns := o.GetNamespace(); ns != "" {
			meta["namespace"] = ns
		}
		all = append(all, map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "metadata": meta})
	}
	return all
}

// after are the deleting steps that come next among those which need a step.
func (l *look) after(name string, deletes map[string]bool) []string {
	seen := map[string]bool{}
	var all []string
	var walk func(string)
	walk = func(name string) {
		for _, s := range l.Plan.Steps {
			if seen[s.Name] || !slices.Contains(l.graph.Needs(s.Name), name) {
				continue
			}
			seen[s.Name] = true
			if deletes[s.Name] {
				all = append(all, s.Name)
			} else {
				walk(s.Name)
			}
		}
	}
	walk(name)
	return all
}

// before are the steps that delete custom resources of others, one for each cluster.
func (l *look) before() []plan.Step {
	orphans := l.orphans()
	var all []plan.Step
	for _, cluster := range slices.Sorted(maps.Keys(orphans)) {
		all = append(all, plan.Step{
			Name: l.unused(customResources, cluster), Cluster: cluster, Dir: l.Plan.Dir,
			Delete: &plan.Delete{Objects: references(orphans[cluster])},
		})
	}
	return all
}

// last are the steps that delete namespaces, one for each cluster.
func (l *look) last(needs []plan.Need) []plan.Step {
	var all []plan.Step
	for _, p := range l.places {
		if len(p.foreign) > 0 {
			continue
		}
		name := l.unused(namespaces, p.cluster)
		i := slices.IndexFunc(all, func(s plan.Step) bool { return s.Name == name })
		if i < 0 {
			i = len(all)
			all = append(all, plan.Step{Name: name, Cluster: p.cluster, Dir: l.Plan.Dir, Needs: needs, Delete: &plan.Delete{}})
		}
		all[i].Delete.Leftovers = append(all[i].Delete.Leftovers, p.Leftover)
	}
	return all
}

// unused is a name for an added step that no step of the plan has.
func (l *look) unused(name, cluster string) string {
	if cluster != "" {
		name += "[" + cluster + "]"
	}
	for slices.ContainsFunc(l.Plan.Steps, func(s plan.Step) bool { return s.Name == name }) {
		name = "kplan-" + name
	}
	return name
}

// needs are needs of all of some steps.
func needs(steps []plan.Step) []plan.Need {
	var all []plan.Need
	for _, s := range steps {
		all = append(all, plan.Need{Step: s.Name})
	}
	return all
}
