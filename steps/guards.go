package steps

import (
	"context"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/guard"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
)

// Guards tells which steps' objects the plan's own webhooks intercept, with what the
// clusters know that are connected, and with the charts that the steps fetch anyway.
// What cannot be read is left out: its step will say why. Guards of steps that have
// begun to send are marked as late.
func (s *Steps) Guards(ctx context.Context) []runner.Guard {
	known := map[string]guard.Known{}
	has := map[string]charts.Capabilities{}
	for name, conn := range s.conns {
		c := conn.Now()
		if c == nil {
			continue
		}
		served, version, err := c.Serves(ctx)
		if err != nil {
			continue
		}
		known[name] = guard.Known{Served: served, Labels: c.Labels(ctx)}
		has[name] = charts.CapabilitiesOf(version, served)
	}
	guards, _ := guard.Find(ctx, s.plan, func(ctx context.Context, step plan.Step) ([]manifest.Object, error) {
		if step.Helm == nil {
			return manifest.Of(ctx, step, s.sources, nil, charts.Capabilities{})
		}
		s.mu.Lock()
		r := s.resolved[step.Name]
		known := r != nil && r.chart != nil
		s.mu.Unlock()
		if !known {
			return nil, nil
		}
		return s.objects(ctx, step, has[s.plan.StepCluster(step)])
	}, func(cluster string) guard.Known { return known[cluster] })
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, g := range guards {
		guards[i].Late = s.sent[g.Step]
	}
	return guards
}
