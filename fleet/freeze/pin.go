package freeze

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/inventory"
)

// atOnce is how many kubeconfigs are read side by side.
const atOnce = 20

// pin notes where each cluster is: a kubeconfig that says something else later is refused.
func pin(ctx context.Context, in Input, clusters []fleet.Cluster) error {
	var (
		group errgroup.Group
		errs  = make([]error, len(clusters))
	)
	group.SetLimit(atOnce)
	for i := range clusters {
		group.Go(func() error { // ends with its request, which ends with ctx
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			text, err := in.Kubeconfig(ctx, clusters[i])
			if err == nil {
				clusters[i].Server, clusters[i].CA, err = inventory.Pin(text)
			}
			errs[i] = err
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	var faults Groups
	for i, err := range errs {
		if err != nil {
			faults.Add(inventory.ClassOf(err), clusters[i], err)
		}
	}
	return faults.Err()
}
