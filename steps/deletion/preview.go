package deletion

import (
	"context"

	"github.com/kplan-dev/kplan/steps/helm"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/dryrun"
	"github.com/kplan-dev/kplan/steps/internal/removal"
)

// Preview finds which objects would be deleted.
func (a *Action) Preview(ctx context.Context, s *cluster.Session) ([]*dryrun.Object, error) {
	var goes []removal.Object
	if a.spec.Release != "" {
		u := helm.Uninstall{Options: a.options, Name: a.spec.Release, Namespace: a.namespace, CRDs: a.spec.DeleteCRDs}
		extent, err := u.Extent(ctx, s)
		if err != nil || extent == nil {
			return nil, err
		}
		goes = extent.Goes()
	} else {
		found, err := a.find(ctx, s)
		if err != nil {
			return nil, err
		}
		empty, _, err := a.empty(ctx, s)
		if err != nil {
			return nil, err
		}
		goes = append(found, empty...)
	}
	var objects []*dryrun.Object
	for _, o := range goes {
		gone := dryrun.Of(o.Unstructured)
		gone.Before = o.Unstructured
		objects = append(objects, gone)
	}
	return objects, nil
}
