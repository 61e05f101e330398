package steps

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
)

// expect tells of a kind that a step's cluster does not serve whether another
// step of the plan brings it, or may when it runs. What the steps send is read
// only when it is asked for that.
func (s *Steps) expect(step plan.Step) func(context.Context, schema.GroupVersionKind) kinds.Prospect {
	return func(ctx context.Context, gvk schema.GroupVersionKind) kinds.Prospect {
		origins := func(steps ...plan.Step) []*kinds.Step {
			var all []*kinds.Step
			for _, step := range steps {
				all = append(all, s.origin(ctx, step))
			}
			return all
		}
		before, beside := kinds.Around(s.plan, step)
		n := kinds.Neighbours{Own: s.origin(ctx, step), Before: origins(before...), Beside: origins(beside...)}
		return n.Find(gvk)
	}
}

// origin reads what a step means for kinds, once for each time that it is bound.
func (s *Steps) origin(ctx context.Context, step plan.Step) *kinds.Step {
	s.mu.Lock()
	r := s.resolved[step.Name]
	if r == nil {
		r = &resolved{Step: step}
	}
	known, chart := r.origin, r.chart
	s.mu.Unlock()
	if known != nil {
		return known
	}
	if len(r.Deferred()) > 0 {
		return kinds.Unknown(step.Name) // what it sends is known when it runs
	}
	var has charts.Capabilities
	if c := s.conns[s.plan.StepCluster(r.Step)].Now(); c != nil && chart != nil {
		if served, version, err := c.Serves(ctx); err == nil {
			has = charts.CapabilitiesOf(version, served)
		}
	}
	objects, err := manifest.Of(ctx, r.Step, s.sources, chart, has)
	if err != nil {
		return kinds.Unknown(step.Name) // its own run says why
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.origin = kinds.Of(step.Name, manifest.Bare(objects))
	return r.origin
}
