package runner

import (
	"slices"
	"time"
)

// Plan is the plan's name.
func (x *Execution) Plan() string { return x.plan }

// State is that of the whole run: running, succeeded, failed or cancelled; ""
// before the first event.
func (x *Execution) State() State { return x.state }

// Err is why the run was stopped; "" when it was not.
func (x *Execution) Err() string { return x.err }

// Started is when the run began, and Last when its latest event was.
func (x *Execution) Started() time.Time { return x.started }

// Last is the time of the latest event.
func (x *Execution) Last() time.Time { return x.last }

// Elapsed is the time from the first event to the latest.
func (x *Execution) Elapsed() time.Duration { return x.last.Sub(x.started) }

// Steps are all steps in plan order. They belong to the Execution and change
// with it: only read them.
func (x *Execution) Steps() []*Step { return x.steps }

// Step is the step of that name; nil when there is none.
func (x *Execution) Step(name string) *Step { return x.byName[name] }

// Fetching returns how many of the charts that are fetched ahead of the steps are there,
// and how many there are.
func (x *Execution) Fetching() (done, total int) { return x.fetched, x.wanted }

// Guards are the webhooks of the plan itself, and the steps whose objects they
// intercept; nil until they are known.
func (x *Execution) Guards() []Guard { return x.guards }

// Findings are the events that tell of what was found before it could keep a step from its
// work.
func (x *Execution) Findings() []Event { return x.findings }

// Paused reports whether the run waits for orders: see Runner.Linger.
func (x *Execution) Paused() bool { return x.paused }

// ManyClusters reports whether the steps work on more than one cluster.
func (x *Execution) ManyClusters() bool {
	return slices.ContainsFunc(x.steps, func(s *Step) bool { return s.Cluster != x.steps[0].Cluster })
}

// Counts says how many steps are in each state.
func (x *Execution) Counts() map[State]int {
	counts := map[State]int{}
	for _, s := range x.steps {
		counts[s.State]++
	}
	return counts
}

// In are the steps in one of the states, in plan order.
func (x *Execution) In(states ...State) []*Step {
	var in []*Step
	for _, s := range x.steps {
		if slices.Contains(states, s.State) {
			in = append(in, s)
		}
	}
	return in
}

// Failed are the steps that failed, in plan order.
func (x *Execution) Failed() []*Step { return x.In(StateFailed) }

// Blocked are the steps that never ran because another one failed, in plan order.
func (x *Execution) Blocked() []*Step { return x.In(StateBlocked) }

// Holder is the step of the concurrency group of s that has begun and not ended, for
// which s waits; "" when s does not wait for that.
func (x *Execution) Holder(s *Step) string {
	if s.WaitsFor == "" {
		return ""
	}
	for _, o := range x.steps {
		if o.ConcurrencyGroup == s.ConcurrencyGroup && (o.State.Active() || o.State == StateRetrying) {
			return o.Name
		}
	}
	return s.WaitsFor
}

// WhyBlocked names the failed steps that the named step needs to succeed, directly
// or through others, in plan order.
func (x *Execution) WhyBlocked(name string) []string {
	seen := map[string]bool{}
	var visit func(string)
	visit = func(name string) {
		if s := x.byName[name]; s != nil && !seen[name] {
			seen[name] = true
			for _, need := range s.Needs {
				if s.NeedsOn[need] == "" { // to succeed
					visit(need)
				}
			}
		}
	}
	visit(name)
	delete(seen, name)
	var why []string
	for _, s := range x.Failed() {
		if seen[s.Name] {
			why = append(why, s.Name)
		}
	}
	return why
}
