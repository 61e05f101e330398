package member

import (
	"time"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// fold is what a result needs of a run's events beside its Execution. It is an Observer.
type fold struct {
	writes  map[string]bool // the steps that change their cluster
	began   bool            // a step did
	failed  string          // the first step that failed
	changed bool            // a step changed something

	holding map[string]bool // the steps of which a request is held
	total   time.Duration   // complete times with at least one of these
	since   time.Time       // set while there is one
}

var _ runner.Observer = (*fold)(nil)

// Observe implements runner.Observer.
func (f *fold) Observe(e runner.Event) {
	switch e.Type {
	case runner.TypePlan:
		f.writes, f.holding = map[string]bool{}, map[string]bool{}
		for _, s := range e.Steps {
			switch plan.Kind(s.Kind) {
			case plan.KindWait, plan.KindWebhook:
			default:
				f.writes[s.Name] = true
			}
		}
	case runner.TypeState:
		f.enter(e)
	default:
	}
}

// enter notes that a step entered a state.
func (f *fold) enter(e runner.Event) {
	switch e.State {
	case runner.StateRunning:
		f.began = true
	case runner.StateFailed:
		if f.failed == "" {
			f.failed = e.Step
		}
	case runner.StateSucceeded:
		f.changed = f.changed || f.writes[e.Step]
	default:
	}
	before := len(f.holding)
	if e.State == runner.StateHolding {
		f.holding[e.Step] = true
	} else {
		delete(f.holding, e.Step)
	}
	switch now := len(f.holding); {
	case before == 0 && now > 0:
		f.since = e.Time
	case before > 0 && now == 0:
		f.total += e.Time.Sub(f.since)
		f.since = time.Time{}
	}
}

// held is how long at least one request was held, up to now.
func (f *fold) held(now time.Time) time.Duration {
	if f.since.IsZero() {
		return f.total
	}
	return f.total + now.Sub(f.since)
}
