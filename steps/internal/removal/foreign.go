package removal

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
)

// Foreign reads what of a namespace is somebody else's: what is neither on its way out
// nor made by the programs that the namespace was for. Objects that spare names do not
// count.
func Foreign(ctx context.Context, s *cluster.Session, namespace string, programs []string, spare ...Object) ([]Object, error) {
	inside, err := Contents(ctx, s, namespace)
	return slices.DeleteFunc(inside, func(o Object) bool {
		spared := slices.ContainsFunc(spare, func(other Object) bool { return other.GetUID() == o.GetUID() })
		return spared || !isForeign(o, programs)
	}), err
}

// isForeign reports whether an object of a namespace is neither on its way out nor
// made by the programs that the namespace was for. Data is not theirs alone.
func isForeign(o Object, programs []string) bool {
	if o.GetDeletionTimestamp() != nil || len(o.GetOwnerReferences()) > 0 {
		return false
	}
	if o.GroupVersionKind().Group == "" && o.GetKind() == "PersistentVolumeClaim" {
		return true
	}
	makers := Makers(o)
	return len(makers) == 0 || slices.ContainsFunc(makers, func(m string) bool { return !slices.Contains(programs, m) })
}

// Occupied says why a namespace stays that has something of others.
func Occupied(foreign []Object) string {
	const most = 3
	var names []string
	for _, o := range foreign[:min(most, len(foreign))] {
		names = append(names, o.ID())
	}
	text := "it has " + strings.Join(names, ", ")
	if more := len(foreign) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
