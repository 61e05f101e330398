package helm

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/engine"
)

// Holds reports whether a revision that an earlier run made is what the cluster
// has: it is the newest one and deployed, and its objects are there as they were
// rendered. Then it waits for them as Run does. The chart is not asked for.
func (a *Action) Holds(ctx context.Context, s *cluster.Session, r runner.Reporter, revision int) (bool, error) {
	conn, err := a.connect(ctx, s, r)
	if err != nil {
		return false, err
	}
	defer conn.client.order.Close()
	all, err := a.history(ctx, conn)
	if err != nil {
		return false, err
	}
	last := all.last()
	values, err := a.Values(ctx)
	if err != nil {
		return false, err
	}
	if last == nil || last.Version != revision || last.Info.Status != engine.StatusDeployed ||
		last.Labels[inputsLabel] == "" || !sameValues(last.Config, values) { // another release may have the number
		return false, nil
	}
	resources, err := conn.client.Build(manifestOf(last), false)
	if err != nil {
		return false, err
	}
	d, err := reader{s}.drift(ctx, last, resources)
	if err != nil || len(d.Gone) > 0 {
		return false, err
	}
	for _, c := range d.Changed {
		if len(c.Fields) > 0 {
			return false, nil
		}
	}
	if !a.waits() {
		return true, nil
	}
	return true, conn.client.ready(resources, targets(resources, func(kind schema.GroupVersionKind) bool { return isAwaited(kind) || isCustom(kind) }))
}
