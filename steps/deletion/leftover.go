package deletion

import (
	"context"
	"fmt"
	"slices"
	"strings"

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
			kept = append(kept, removal.Kept{Object: o.ID(), Reason: "it has " + some(foreign)})
		default:
			goes = append(goes, *o)
		}
	}
	return goes, kept, nil
}

// some names a few objects.
func some(ids []string) string {
	const most = 3
	if more := len(ids) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:most], ", "), more)
	}
	return strings.Join(ids, ", ")
}

// Leftover reads a namespace, and what is in it that is none of kplan's business; nil
// when it is not there. Objects that spare names do not count.
func Leftover(ctx context.Context, s *cluster.Session, left plan.Leftover, spare ...removal.Object) (*removal.Object, []string, error) {
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	ns.SetName(left.Namespace)
	found, err := removal.Find(ctx, s, []*unstructured.Unstructured{ns}, "")
	if err != nil || len(found) == 0 {
		return nil, nil, err
	}
	inside, err := removal.Contents(ctx, s, left.Namespace)
	if err != nil {
		return nil, nil, err
	}
	var foreign []string
	for _, o := range inside {
		spared := slices.ContainsFunc(spare, func(other removal.Object) bool { return other.GetUID() == o.GetUID() })
		if !spared && isForeign(o, left.Programs) {
			foreign = append(foreign, o.ID())
		}
	}
	return &found[0], foreign, nil
}

// isForeign reports whether an object of a namespace is neither on its way out nor
// made by the programs that the namespace was for. Data is not theirs alone.
func isForeign(o removal.Object, programs []string) bool {
	if o.GetDeletionTimestamp() != nil || len(o.GetOwnerReferences()) > 0 {
		return false
	}
	if o.GroupVersionKind().Group == "" && o.GetKind() == "PersistentVolumeClaim" {
		return true
	}
	makers := removal.Makers(o)
	return len(makers) == 0 || slices.ContainsFunc(makers, func(m string) bool { return !slices.Contains(programs, m) })
}
