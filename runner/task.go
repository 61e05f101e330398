package runner

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/kplan-dev/kplan/plan"
)

// task is a step while it runs.
type task struct {
	index    int
	step     plan.Step
	action   Action // nil for a step that is deferred, or does not run
	timeout  time.Duration
	attempts int
	inputs   []plan.Input // what a deferred step is made of
	retry    plan.Retry
	delays   *backoff.ExponentialBackOff // nil before the first delay
	group    *group                      // nil without a bound of its own
	turn     *turn                       // nil without a concurrency group

	needs      []edge
	dependents []edge
	missing    int  // how many needs have not ended
	willBlock  bool // a step that it needs failed

	// ctx spans all attempts, from the first start to the end: its deadline is
	// the step's timeout. It is kept here because delays lie between attempts.
	ctx       context.Context
	cancel    context.CancelFunc
	attempt   int // counts from 1
	active    bool
	delayOver bool // it waits for a slot, and for no delay any more
	skipped   bool // its attempt ends because of an order
	unchanged bool
	outputs   map[string]any // of the latest attempt
	lastErr   error          // of the attempt before
	err       error          // why the step failed
}

// edge leads to a task that is needed, or to one that needs, and says how the
// needed one must have ended.
type edge struct {
	task *task // nil when there is none of that name
	on   plan.NeedOn
}

// success reports whether the needed task must have succeeded.
func (e edge) success() bool { return e.on == "" || e.on == plan.NeedSuccess }

// group bounds how many steps of one for_each run at once.
type group struct {
	limit, running int
	parked         queue // those that may start but for the limit
}

// full reports whether no other task of the group may start. A nil group has no bound.
func (g *group) full() bool { return g != nil && g.running >= g.limit }

// newTasks returns the tasks of a plan's steps, connected as they need each other.
func newTasks(p *plan.Plan) (tasks []*task, byName map[string]*task, err error) {
	tasks, byName = make([]*task, len(p.Steps)), make(map[string]*task, len(p.Steps))
	groups, turns := map[string]*group{}, map[string]*turn{}
	for i, s := range p.Steps {
		if byName[s.Name] != nil {
			return nil, nil, fmt.Errorf("two steps are called %q", s.Name)
		}
		retry := p.StepRetry(s)
		t := &task{
			index: i, step: s, inputs: s.Deferred(), timeout: p.StepTimeout(s),
			retry: retry, attempts: max(retry.InstallRetries, 1),
		}
		if s.Group != "" && s.Parallel > 0 {
			if groups[s.Group] == nil {
				groups[s.Group] = &group{limit: s.Parallel}
			}
			t.group = groups[s.Group]
		}
		if name := s.ConcurrencyGroup; name != "" {
			if turns[name] == nil {
				turns[name] = &turn{name: name}
			}
			t.turn = turns[name]
		}
		byName[s.Name], tasks[i] = t, t
	}
	for _, t := range tasks {
		t.connect(byName)
	}
	return tasks, byName, nil
}

// connect draws the edges of what t needs, each once.
func (t *task) connect(byName map[string]*task) {
	needs := slices.Clone(t.step.Needs)
	slices.SortFunc(needs, func(a, b plan.Need) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.On, b.On))
	})
	for _, n := range slices.Compact(needs) {
		need := byName[n.Step]
		t.needs = append(t.needs, edge{need, n.On})
		if need != nil {
			need.dependents = append(need.dependents, edge{t, n.On})
		}
	}
}

// runs reports whether the step is to run as far as the plan itself says.
func (t *task) runs() bool { return t.step.Skip == "" && t.step.When != false }

// isDeferred reports whether the step is made of values that are known only when it
// starts; it has no action before.
func (t *task) isDeferred() bool { return len(t.inputs) > 0 }

// clusterInputs returns the inputs that a cluster must be asked for.
func (t *task) clusterInputs() []plan.Input {
	return slices.DeleteFunc(slices.Clone(t.inputs), func(in plan.Input) bool { return in.Step != "" })
}
