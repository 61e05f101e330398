package steps

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
)

// expect tells of a kind that a step's cluster does not serve whether another
// step of the plan brings it, or may when it runs. What the steps send is read
// only when it is asked for that.
func (s *Steps) expect(step plan.Step) func(context.Context, schema.GroupVersionKind) cluster.Prospect {
	return func(ctx context.Context, gvk schema.GroupVersionKind) cluster.Prospect {
		before, beside := kinds.Around(s.plan, step)
		n := kinds.Neighbours{Own: s.origin(ctx, step)}
		for _, other := range before {
			n.Before = append(n.Before, s.origin(ctx, other))
		}
		for _, other := range beside {
			n.Beside = append(n.Beside, s.origin(ctx, other))
		}
		return n.Find(gvk)
	}
}

// errNotBound says that what a step sends is known only when it runs.
var errNotBound = errors.New("the step is not bound yet")

// read is what a step means for kinds, as it was read for its spec.
type read struct {
	spec any
	*kinds.Step
}

// origin reads what a step means for kinds. It is read again when the step was
// bound anew.
func (s *Steps) origin(ctx context.Context, step plan.Step) *kinds.Step {
	s.mu.Lock()
	if bound, ok := s.bound[step.Name]; ok {
		step = bound
	}
	chart, known := s.charts[step.Name].Chart, s.origins[step.Name]
	s.mu.Unlock()
	spec := any(step.Helm)
	if step.Helm == nil {
		spec = step.Apply
	}
	if known.Step != nil && known.spec == spec {
		return known.Step
	}
	objects, err := s.objects(ctx, step, chart)
	if err != nil {
		return kinds.Unknown(step.Name) // its own run says why
	}
	known = read{spec, kinds.Of(step.Name, objects)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.origins[step.Name] = known
	return known.Step
}

// objects are those that a step sends; chart is that of a helm step.
func (s *Steps) objects(ctx context.Context, step plan.Step, chart *charts.Chart) ([]*unstructured.Unstructured, error) {
	switch {
	case len(step.Deferred()) > 0:
		return nil, errNotBound
	case chart == nil:
		return manifest.Applied(s.plan, step)
	}
	var has charts.Capabilities
	if conn := s.conns[s.plan.StepCluster(step)].Now(); conn != nil {
		if served, version, err := conn.Cluster.Serves(ctx); err == nil {
			has = charts.CapabilitiesOf(version, served)
		}
	}
	return chart.Render(ctx, has)
}
