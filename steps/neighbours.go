package steps

import (
	"cmp"
	"context"
	"errors"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/apply"
	"github.com/kplan-dev/kplan/steps/internal/applyset"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
)

// neighbours says of the plan's other steps on the same cluster what a step that prunes
// has to know.
func (s *Steps) neighbours(step plan.Step, c *cluster.Cluster) apply.Neighbours {
	n := apply.Neighbours{Plan: s.plan.Metadata.Name, Sets: map[string]bool{}}
	others := others(s.plan, step)
	for _, o := range others {
		if o.Apply != nil {
			n.Sets[applyset.Of(n.Plan, o, cmp.Or(o.Apply.Namespace, c.Namespace())).ID()] = true
		}
	}
	n.Places = func(ctx context.Context) (map[apply.Place]string, error) {
		places := map[apply.Place]string{}
		var unread *apply.UnreadError
		for _, o := range others {
			if err := s.place(ctx, o, c, places); err != nil && !errors.As(err, &unread) {
				return nil, err
			}
		}
		if unread != nil {
			return places, unread
		}
		return places, nil
	}
	return n
}

// others are the plan's other steps on a step's cluster, finally steps included, and
// those that are not picked.
func others(p *plan.Plan, step plan.Step) []plan.Step {
	var all []plan.Step
	for _, o := range p.Steps {
		if o.Name != step.Name && p.StepCluster(o) == p.StepCluster(step) {
			all = append(all, o)
		}
	}
	return all
}

// place notes what one step sends. Of a deferred step that is not bound yet this is what
// the plan says without the values that come later. The error is a *apply.UnreadError if
// that is not known, and may be when the step runs.
func (s *Steps) place(ctx context.Context, step plan.Step, c *cluster.Cluster, places map[apply.Place]string) error {
	s.mu.Lock()
	var chart *charts.Chart
	if r := s.resolved[step.Name]; r != nil {
		step, chart = r.Step, r.chart
	}
	s.mu.Unlock()
	var (
		namespace string
		has       charts.Capabilities
		err       error
	)
	switch {
	case step.Apply != nil:
		namespace = step.Apply.Namespace
	case step.Helm != nil:
		namespace = step.Helm.Namespace
		if chart == nil {
			chart, err = charts.New(step, c.Namespace(), s.sources)
		}
		if served, version, err := c.Serves(ctx); err == nil {
			has = charts.CapabilitiesOf(version, served)
		}
	default:
		return nil
	}
	var objects []manifest.Object
	if err == nil {
		objects, err = manifest.Of(ctx, step, s.sources, chart, has)
	}
	for _, o := range objects {
		// Whether its kind has namespaces is not looked up: the other place is nobody's.
		places[apply.Place{GroupKind: o.Kind(), Namespace: cmp.Or(o.GetNamespace(), namespace, c.Namespace()), Name: o.GetName()}] = step.Name
		places[apply.Place{GroupKind: o.Kind(), Name: o.GetName()}] = step.Name
	}
	if err != nil && ctx.Err() == nil && (step.Helm != nil || len(step.Deferred()) > 0) {
		return &apply.UnreadError{Step: step.Name, Err: err}
	}
	return err
}
