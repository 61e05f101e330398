package helm

import (
	"context"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/removal"
)

// Space is a namespace among a release's own objects. It goes when nothing is in it
// but what the release has, and what its programs made.
type Space struct {
	removal.Object
	// Foreign is what is in it of others.
	Foreign []removal.Object
}

// occupy reads what the release's namespaces have of others.
func (u Uninstall) occupy(ctx context.Context, s *cluster.Session, e *Extent) error {
	goes := slices.Concat(e.objects, e.hooks, e.definitions, e.Orphans)
	for i := range e.Spaces {
		foreign, err := removal.Foreign(ctx, s, e.Spaces[i].GetName(), e.Programs, goes...)
		if err != nil {
			return err
		}
		e.Spaces[i].Foreign = slices.DeleteFunc(foreign, u.isRecord)
	}
	return nil
}

// isRecord reports whether an object is the record of a revision of the release.
func (u Uninstall) isRecord(o removal.Object) bool {
	return o.GetKind() == "Secret" && o.GetNamespace() == u.Namespace && strings.HasPrefix(o.GetName(), "sh.helm.release.v1."+u.Name+".v")
}

// vacate deletes the release's namespaces that have nothing of others by now: the
// release's own one, in which its record is, or the others.
func (u Uninstall) vacate(ctx context.Context, remover *removal.Remover, e *Extent, own bool) error {
	var goes []removal.Object
	for _, s := range e.Spaces {
		if own == (s.GetName() == u.Namespace) && len(s.Foreign) == 0 {
			goes = append(goes, s.Object)
		}
	}
	return remover.Remove(ctx, goes)
}

// keepSpaces notes which of the release's namespaces stay.
func (e *Extent) keepSpaces() {
	for _, s := range e.Spaces {
		if len(s.Foreign) > 0 {
			e.keep(s.Object, removal.Occupied(s.Foreign))
		}
	}
}
