package steps

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/guard"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
)

// Guards is as the function of that name, with what the clusters know that are
// connected, and with the charts that the steps fetch anyway. What cannot be
// read is left out: its step will say why. Guards of steps that have begun to send are
// marked as late.
func (s *Steps) Guards(ctx context.Context) []runner.Guard {
	known := map[string]guard.Known{}
	has := map[string]charts.Capabilities{}
	for name, l := range s.conns {
		conn := l.Now()
		if conn == nil {
			continue
		}
		served, version, err := conn.Cluster.Serves(ctx)
		if err != nil {
			continue
		}
		known[name] = guard.Known{Served: served, Labels: conn.Labels(ctx)}
		has[name] = charts.CapabilitiesOf(version, served)
	}
	guards, _ := guard.Find(ctx, s.plan, func(ctx context.Context, step plan.Step) ([]*unstructured.Unstructured, error) {
		s.mu.Lock()
		chart := s.charts[step.Name]
		s.mu.Unlock()
		if chart.Chart != nil {
			return chart.Render(ctx, has[s.plan.StepCluster(step)])
		}
		return manifest.Applied(s.plan, step)
	}, func(cluster string) guard.Known { return known[cluster] })
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, g := range guards {
		guards[i].Late = s.sent[g.Step]
	}
	return guards
}
