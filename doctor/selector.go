package doctor

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"
)

// disjoint reports whether no labels fit both selectors, by two requirements that
// contradict each other. A selector that is missing selects all.
func disjoint(a, b *metav1.LabelSelector) bool {
	for _, p := range requirements(a) {
		for _, q := range requirements(b) {
			if p.Key() == q.Key() && (contradict(p, q) || contradict(q, p)) {
				return true
			}
		}
	}
	return false
}

func requirements(s *metav1.LabelSelector) labels.Requirements {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if s == nil || err != nil {
		return nil
	}
	all, _ := selector.Requirements()
	return all
}

// contradict reports whether no value of their label fits both requirements. It is
// asked both ways round.
func contradict(p, q labels.Requirement) bool {
	a, b := sets.New(p.Values().UnsortedList()...), sets.New(q.Values().UnsortedList()...)
	in := func(o selection.Operator) bool {
		return o == selection.In || o == selection.Equals || o == selection.DoubleEquals
	}
	switch {
	case in(p.Operator()) && in(q.Operator()):
		return !a.HasAny(b.UnsortedList()...)
	case in(p.Operator()) && (q.Operator() == selection.NotIn || q.Operator() == selection.NotEquals):
		return b.IsSuperset(a)
	case in(p.Operator()), p.Operator() == selection.Exists:
		return q.Operator() == selection.DoesNotExist
	default:
		return false
	}
}

// meet reports whether there is a namespace that both selectors select.
func (c *Cluster) meet(ctx context.Context, a, b *metav1.LabelSelector) bool {
	if disjoint(a, b) {
		return false
	}
	return slices.ContainsFunc(c.meta(ctx, namespaceResource, false, ""), func(n metav1.PartialObjectMetadata) bool {
		return selects(a, n.Labels) && selects(b, n.Labels)
	})
}

// selects reports whether a namespaceSelector selects a namespace.
func selects(s *metav1.LabelSelector, set map[string]string) bool {
	if s == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(set))
}
