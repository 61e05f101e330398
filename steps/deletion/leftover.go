package deletion

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/removal"
)

// empty parts the step's leftover namespaces into those that go and those that stay.
func (a *Action) empty(ctx context.Context, s *cluster.Session) (goes []removal.Object, kept []removal.Kept, err error) {
	for _, left := range a.spec.Leftovers {
		o, foreign, err := Leftover(ctx, s, left)
		switch {
		case err != nil:
			return nil, nil, err
		case o == nil:
		case len(foreign) > 0:
			kept = append(kept, removal.Kept{Object: o.ID(), Reason: removal.Occupied(foreign)})
		default:
			goes = append(goes, *o)
		}
	}
	return goes, kept, nil
}

// Leftover reads a namespace, and what is in it that is none of kplan's business; nil
// when it is not there. Objects that spare names do not count.
func Leftover(ctx context.Context, s *cluster.Session, left plan.Leftover, spare ...removal.Object) (*removal.Object, []removal.Object, error) {
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	ns.SetName(left.Namespace)
	found, err := removal.Find(ctx, s, []*unstructured.Unstructured{ns}, "")
	if err != nil || len(found) == 0 {
		return nil, nil, err
	}
	foreign, err := removal.Foreign(ctx, s, left.Namespace, left.Programs, spare...)
	return &found[0], foreign, err
}
