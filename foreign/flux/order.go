package flux

import (
	"cmp"
	"slices"

	"github.com/kplan-dev/kplan/foreign"
)

// orderGroups lets the steps of a Kustomization come after those that it depends on.
func (im *importer) orderGroups() {
	for _, g := range im.groups {
		if g.v == nil {
			continue
		}
		for _, d := range g.v.Get("spec", "dependsOn").Items() {
			name := d.Get("name").Text()
			other := im.group(name, cmp.Or(d.Get("namespace").Text(), g.namespace))
			if other == nil {
				d.Lost("import its files too, or be sure that it was applied before", "the Kustomization %s is not in the files", name)
				continue
			}
			for _, last := range im.lastOf(other, nil) {
				for _, first := range g.firsts() {
					if !reaches(last, first) {
						first.Need(last, "")
					}
				}
			}
		}
	}
}

// firsts are the steps of a group that need no other of it.
func (g *group) firsts() []*foreign.Step {
	return slices.DeleteFunc(slices.Clone(g.steps), func(s *foreign.Step) bool {
		return slices.ContainsFunc(s.Needs, func(n foreign.Need) bool { return slices.Contains(g.steps, n.Step) })
	})
}

// lastOf are the steps of a group that no other of it needs; of one without steps those
// of the groups that it depends on.
func (im *importer) lastOf(g *group, within []*group) []*foreign.Step {
	if len(g.steps) == 0 && !slices.Contains(within, g) {
		var all []*foreign.Step
		for _, d := range g.v.Get("spec", "dependsOn").Items() {
			if other := im.group(d.Get("name").Peek(), cmp.Or(d.Get("namespace").Peek(), g.namespace)); other != nil {
				all = append(all, im.lastOf(other, append(within, g))...)
			}
		}
		return all
	}
	return slices.DeleteFunc(slices.Clone(g.steps), func(s *foreign.Step) bool {
		return slices.ContainsFunc(g.steps, func(other *foreign.Step) bool {
			return slices.ContainsFunc(other.Needs, func(n foreign.Need) bool { return n.Step == s })
		})
	})
}

// reaches reports whether a step needs another one, directly or not: needing it in turn
// would be a circle.
func reaches(s, other *foreign.Step) bool {
	seen := map[*foreign.Step]bool{}
	var walk func(s *foreign.Step) bool
	walk = func(s *foreign.Step) bool {
		if s == other {
			return true
		}
		if seen[s] {
			return false
		}
		seen[s] = true
		return slices.ContainsFunc(s.Needs, func(n foreign.Need) bool { return walk(n.Step) })
	}
	return walk(s)
}
