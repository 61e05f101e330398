package steps

import (
	"context"
	"sync"
	"time"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
	"github.com/kplan-dev/kplan/steps/preflight"
)

// Preflight says what is looked for before a run, or beside its first steps.
type Preflight struct {
	// Records says that a cluster is to keep the records of the run.
	Records bool
	// Strict looks also for what steps find by themselves before they write.
	Strict bool
	// Unread tells also of charts and files that cannot be read or rendered.
	Unread bool
	// Within is how long the look takes at most; 0 is preflight.Bound.
	Within time.Duration
}

// Preflight looks in the plan's clusters for what keeps steps from their work, and tells
// each finding as soon as it has it, one at a time. It writes nothing.
func (s *Steps) Preflight(ctx context.Context, how Preflight, found func(finding.Finding)) {
	run := preflight.Run{Plan: s.plan, Conns: s.conns, Chart: s.chartOf, Strict: how.Strict, Unread: how.Unread, Within: how.Within, Objects: s.objects}
	if how.Records {
		run.Home, run.HasHome = cluster.Home(s.plan, s.conns)
	}
	s.looking.Store(&sync.Map{})
	defer s.looking.Store(nil)
	run.Look(ctx, found)
}

// chartOf is the chart of a helm step as it is known now; nil when it is none.
func (s *Steps) chartOf(step plan.Step) *charts.Chart {
	conn := s.conns[s.plan.StepCluster(step)]
	if step.Helm == nil || conn == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.resolved[step.Name]; r != nil && r.chart != nil {
		return r.chart
	}
	chart, err := charts.New(step, conn.Namespace(), s.sources)
	if err != nil {
		return nil // the step says so
	}
	return chart
}

// objects reads the objects that a step names. Those who want them at the same time share
// what is read, and a look before the run keeps it as long as it lasts: rendering takes
// most of its time.
func (s *Steps) objects(ctx context.Context, step plan.Step, has charts.Capabilities) ([]manifest.Object, error) {
	kept := s.looking.Load()
	if kept != nil {
		if objects, ok := kept.Load(step.Name); ok {
			return objects.([]manifest.Object), nil
		}
	}
	return s.readings.Do(ctx, step.Name, func(ctx context.Context) ([]manifest.Object, error) {
		objects, err := preflight.Objects(ctx, step, s.conns[s.plan.StepCluster(step)].Namespace(), s.sources, s.chartOf(step), has)
		if err == nil && kept != nil {
			kept.Store(step.Name, objects)
		}
		return objects, err
	})
}
