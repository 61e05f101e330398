package teardown

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/deletion"
	"github.com/kplan-dev/kplan/steps/internal/removal"
)

// place is a namespace that the plan made.
type place struct {
	plan.Leftover
	cluster string
	// foreign is what is in it that stays.
	foreign []removal.Object
}

// goesAt reports whether what a step made goes at all.
func (f *found) goesAt() bool { return f.step.Skip == "" || f.whenFalse() }

// share settles whose an object is that several steps have: that of the first in the
// plan, which deletes it last. If that one stays, so does the object. What a step
// keeps because nobody of it made it may be another's that goes.
func (l *look) share() {
	owner := map[types.UID]*found{}
	byID := map[string]*found{}
	for _, f := range l.found {
		f.goes = slices.DeleteFunc(f.goes, func(o removal.Object) bool {
			first := owner[o.GetUID()]
			if first == nil {
				owner[o.GetUID()], byID[f.cluster+" "+o.ID()] = f, f
				return false
			}
			if !first.goesAt() && f.goesAt() {
				f.keep(o, fmt.Sprintf("step %s has it too, and stays", first.step.Name))
			}
			return true
		})
	}
	for _, f := range l.found {
		f.orphans = slices.DeleteFunc(f.orphans, func(o removal.Object) bool { return owner[o.GetUID()] != nil })
		f.kept = slices.DeleteFunc(f.kept, func(k Kept) bool {
			by := byID[f.cluster+" "+k.Object]
			return by != nil && by != f && by.goesAt()
		})
	}
}

// orphans are the custom resources of somebody else whose definitions go, by cluster.
func (l *look) orphans() map[string][]removal.Object {
	all := map[string][]removal.Object{}
	for _, f := range l.found {
		if !f.goesAt() {
			continue
		}
		for _, o := range f.orphans {
			if !slices.ContainsFunc(all[f.cluster], sameAs(o)) {
				all[f.cluster] = append(all[f.cluster], o)
			}
		}
	}
	return all
}

// leftovers looks at the namespaces that the plan made. One that a step which stays
// made, or works in, stays.
func (l *look) leftovers(ctx context.Context) error {
	programs := map[string][]string{}
	for _, f := range l.found {
		programs[f.cluster] = append(programs[f.cluster], f.programs...)
	}
	going := l.going()
	for _, f := range l.found {
		for _, name := range f.namespaces {
			known := slices.ContainsFunc(l.places, func(p place) bool { return p.cluster == f.cluster && p.Namespace == name })
			if known || !f.goesAt() || l.staysIn(f.cluster, name) {
				continue
			}
			p := place{Leftover: plan.Leftover{Namespace: name, Programs: programs[f.cluster]}, cluster: f.cluster}
			ns, foreign, err := deletion.Leftover(ctx, l.sessions[f.cluster], p.Leftover, going[f.cluster]...)
			switch {
			case err != nil:
				return err
			case ns == nil:
				continue
			case !l.made(ns, f):
				continue
			}
			p.foreign = slices.DeleteFunc(foreign, func(o removal.Object) bool {
				return slices.ContainsFunc(l.found, func(f *found) bool { return f.goesAt() && f.hasRecord(p.cluster, o) })
			})
			l.places = append(l.places, p)
		}
	}
	return nil
}

// hasRecord reports whether an object is the record of the step's release.
func (f *found) hasRecord(cluster string, o removal.Object) bool {
	r := f.releaseName
	return f.release != "" && f.cluster == cluster && strings.HasPrefix(o.ID(), "Secret/"+r.Namespace+"/sh.helm.release.v1."+r.Name+".v")
}

// spaces settles which namespaces of charts go that others have something in: those
// of which all of that goes before their release does.
func (l *look) spaces() {
	orphans := l.orphans()
	for _, f := range l.found {
		if len(f.spaces) == 0 {
			continue
		}
		before := l.graph.Descendants(f.step.Name)
		goes := func(o removal.Object) bool {
			return slices.ContainsFunc(orphans[f.cluster], sameAs(o)) || slices.ContainsFunc(l.found, func(other *found) bool {
				return other.goesAt() && other.cluster == f.cluster && slices.Contains(before, other.step.Name) &&
					(slices.ContainsFunc(other.goes, sameAs(o)) || other.hasRecord(f.cluster, o))
			})
		}
		for _, s := range f.spaces {
			if left := slices.DeleteFunc(slices.Clone(s.Foreign), goes); len(left) > 0 {
				f.keep(s.Object, removal.Occupied(left))
			} else if len(s.Foreign) > 0 {
				f.goes = append(f.goes, s.Object)
			}
		}
	}
}

// made reports whether the plan made a namespace. One that an apply step has was
// looked at already.
func (l *look) made(ns *removal.Object, f *found) bool {
	return f.release == "" && f.step.Apply != nil || ns.GetLabels()[removal.PlanLabel] == l.Plan.Metadata.Name
}

// staysIn reports whether a step that stays made a namespace.
func (l *look) staysIn(cluster, namespace string) bool {
	return slices.ContainsFunc(l.found, func(f *found) bool {
		return !f.goesAt() && f.cluster == cluster && slices.Contains(f.namespaces, namespace)
	})
}

// going are all objects that go, by cluster.
func (l *look) going() map[string][]removal.Object {
	all := l.orphans()
	for _, f := range l.found {
		if f.goesAt() {
			all[f.cluster] = append(all[f.cluster], f.goes...)
		}
	}
	return all
}

// list names a few things.
func list(names []string) string {
	const most = 3
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

func cmpText(a, b string) int { return strings.Compare(a, b) }
