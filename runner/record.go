package runner

import (
	"cmp"
	"time"

	"github.com/kplan-dev/kplan/plan"
)

// recorder numbers the events of a run, folds them and shows them to the observers.
// What it folded is the state of the run: there is no other.
type recorder struct {
	start     time.Time
	exec      *Execution
	observers []Observer
	redact    func(string) string // may be nil
}

// announce emits the first event, which lists all steps.
func (r *recorder) announce(p *plan.Plan, of *Runner, tasks []*task) {
	infos := make([]StepInfo, len(tasks))
	for i, t := range tasks {
		s, at := t.step, t.step.Locate("name").Pos
		infos[i] = StepInfo{
			Name: s.Name, Kind: string(s.Kind()), Group: s.Group, ConcurrencyGroup: s.ConcurrencyGroup, Cluster: cmp.Or(s.Cluster, p.Defaults.Cluster), Tags: s.Tags,
			Needs: s.NeedNames(), Finally: s.Last, TimeoutSeconds: t.timeout.Seconds(),
			RetryDelaySeconds: *t.retry.RetryDelaySeconds, File: at.File, Line: at.Line,
		}
		for _, n := range s.Needs {
			if n.On == "" || n.On == plan.NeedSuccess {
				continue
			}
			if infos[i].NeedsOn == nil {
				infos[i].NeedsOn = map[string]plan.NeedOn{}
			}
			infos[i].NeedsOn[n.Step] = n.On
		}
	}
	r.emit(Event{Type: TypePlan, Version: EventVersion, Plan: p.Metadata.Name, Run: of.ID, By: of.By, Program: of.Program, Message: of.About, Steps: infos})
}

// emit numbers e, folds it and shows it to the observers, without what must not
// be shown. Its time never goes back, not even when the machine's clock does.
func (r *recorder) emit(e Event) {
	e.Seq = r.exec.seq + 1
	e.Time = r.start.Add(time.Since(r.start)).Round(0).UTC()
	if r.redact != nil {
		e = e.redacted(r.redact)
	}
	r.exec.Apply(e)
	for _, o := range r.observers {
		o.Observe(e)
	}
}

// enter emits that t entered e.State.
func (r *recorder) enter(t *task, e Event) {
	e.Type, e.Step = TypeState, t.step.Name
	if t.attempt > 0 {
		e.Attempt, e.Attempts = t.attempt, t.attempts
	}
	r.emit(e)
}

func (r *recorder) step(t *task) *Step { return r.exec.steps[t.index] }

func (r *recorder) state(t *task) State { return r.step(t).State }
