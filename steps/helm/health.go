package helm

import (
	"context"
	"fmt"
	"time"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/drift"
	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/watch"
)

// Revision is the newest one of a release.
type Revision struct {
	Namespace, Name, Status, Chart string
	Number                         int
	Updated                        time.Time
}

// Health reads how the release and its objects stand; the revision is nil when there is
// none. Of a release whose newest revision failed the objects are that revision's.
func (a *Action) Health(ctx context.Context, s *cluster.Session) (*Revision, []watch.Standing, error) {
	conn, err := a.connect(ctx, s, silent{})
	if err != nil {
		return nil, nil, err
	}
	defer conn.client.order.Close()
	all, err := a.history(ctx, conn)
	if err != nil {
		return nil, nil, err
	}
	last := all.last()
	if last == nil || last.Info.Status == engine.StatusUninstalled {
		return nil, nil, nil
	}
	info := &Revision{
		Namespace: last.Namespace, Name: last.Name, Number: last.Version, Status: string(last.Info.Status), Updated: last.Info.LastDeployed,
	}
	if last.Chart != nil && last.Chart.Metadata != nil {
		info.Chart = last.Chart.Metadata.Name + " " + last.Chart.Metadata.Version
	}
	resources, err := conn.client.Client.Build(manifestOf(last), false)
	if err != nil {
		return info, nil, fmt.Errorf("reading the release's objects: %w", err)
	}
	read := reader{s}
	live, err := read.live(ctx, resources)
	if err != nil {
		return info, nil, err
	}
	changed := map[string][]drift.Field{}
	if last.Info.Status == engine.StatusDeployed {
		d, err := read.drift(ctx, last, resources)
		if err != nil {
			return info, nil, err
		}
		for _, c := range d.Changed {
			changed[c.Object] = c.Fields
		}
	}
	var standings []watch.Standing
	for i, r := range resources {
		if live[i] == nil && removesItself(r) {
			continue
		}
		t := watch.Target{Kind: r.Mapping.GroupVersionKind, Namespace: r.Namespace, Name: r.Name}
		standing := watch.Stand(t, live[i], conn.client.isReady)
		standing.Drift = changed[t.Object()]
		standings = append(standings, standing)
	}
	return info, standings, nil
}
