package steps

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/helm"
	"github.com/kplan-dev/kplan/steps/internal/kube"
	"github.com/kplan-dev/kplan/steps/internal/origin"
)

// expect tells of a kind that a step's cluster does not serve whether another
// step of the plan brings it, or may when it runs. What the steps send is read
// only when it is asked for that.
func (s *Steps) expect(step plan.Step) func(context.Context, schema.GroupVersionKind) kube.Prospect {
	return func(ctx context.Context, gvk schema.GroupVersionKind) kube.Prospect {
		before, beside := neighbours(s.plan, step)
		n := origin.Neighbours{Own: s.origin(ctx, step)}
		for _, other := range before {
			n.Before = append(n.Before, s.origin(ctx, other))
		}
		for _, other := range beside {
			n.Beside = append(n.Beside, s.origin(ctx, other))
		}
		return n.Find(gvk)
	}
}

// neighbours are the steps that work on the cluster of a step before it, and
// those that may at the same time.
func neighbours(p *plan.Plan, step plan.Step) (before, beside []plan.Step) {
	graph := p.Graph()
	ancestors, descendants := graph.Ancestors(step.Name), graph.Descendants(step.Name)
	for _, other := range p.Steps {
		switch {
		case !runs(other), other.Name == step.Name, !p.SameCluster(p.StepCluster(step), p.StepCluster(other)):
		case slices.Contains(ancestors, other.Name), step.Last && !other.Last:
			before = append(before, other)
		case step.Last == other.Last && !slices.Contains(descendants, other.Name):
			beside = append(beside, other)
		}
	}
	return before, beside
}

// errNotBound says that what a step sends is known only when it runs.
var errNotBound = errors.New("the step is not bound yet")

// read is what a step means for kinds, as it was read for its spec.
type read struct {
	spec any
	*origin.Step
}

// origin reads what a step means for kinds. It is read again when the step was
// bound anew.
func (s *Steps) origin(ctx context.Context, step plan.Step) *origin.Step {
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
		return origin.Unknown(step.Name) // its own run says why
	}
	known = read{spec, origin.Of(step.Name, objects)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.origins[step.Name] = known
	return known.Step
}

// objects are those that a step sends; chart is that of a helm step.
func (s *Steps) objects(ctx context.Context, step plan.Step, chart *helm.Chart) ([]*unstructured.Unstructured, error) {
	switch {
	case len(step.Deferred()) > 0:
		return nil, errNotBound
	case chart == nil:
		return applied(s.plan, step)
	}
	var has helm.Capabilities
	if conn := s.links[s.plan.StepCluster(step)].now(); conn != nil {
		if served, version, err := conn.cluster.Serves(ctx); err == nil {
			has = helm.Capabilities{Version: version, APIs: versions(served)}
		}
	}
	return chart.Render(ctx, has)
}
