package runner

import (
	"encoding/json"
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

// Guards are the webhooks of the plan itself, and the steps whose objects they
// intercept; nil until they are known.
func (x *Execution) Guards() []Guard { return x.guards }

// Paused tells whether the run waits for orders: see Runner.Linger.
func (x *Execution) Paused() bool { return x.paused }

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
		for _, state := range states {
			if s.State == state {
				in = append(in, s)
			}
		}
	}
	return in
}

// Failed are the steps that failed, in plan order.
func (x *Execution) Failed() []*Step { return x.In(StateFailed) }

// Blocked are the steps that never ran because another one failed, in plan order.
func (x *Execution) Blocked() []*Step { return x.In(StateBlocked) }

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

// MarshalJSON writes the summary of a run, for `kplan run -o json`.
func (x *Execution) MarshalJSON() ([]byte, error) {
	s := summary{
		Plan: x.plan, State: x.state, Error: x.err, Started: x.started,
		ElapsedSeconds: x.Elapsed().Seconds(), Counts: x.Counts(), Steps: []stepSummary{},
	}
	for _, step := range x.steps {
		s.Steps = append(s.Steps, x.summarize(step))
	}
	return json.Marshal(s)
}

type summary struct {
	Plan           string        `json:"plan"`
	State          State         `json:"state"`
	Error          string        `json:"error,omitempty"`
	Started        time.Time     `json:"started"`
	ElapsedSeconds float64       `json:"elapsed_seconds"`
	Counts         map[State]int `json:"counts"`
	Steps          []stepSummary `json:"steps"`
}

type stepSummary struct {
	Name            string         `json:"name"`
	Kind            string         `json:"kind"`
	Cluster         string         `json:"cluster,omitempty"`
	State           State          `json:"state"`
	Needs           []string       `json:"needs,omitempty"`
	BlockedBy       []string       `json:"blocked_by,omitempty"`
	Attempt         int            `json:"attempt,omitempty"`
	Attempts        int            `json:"attempts,omitempty"`
	Started         time.Time      `json:"started,omitzero"`
	Ended           time.Time      `json:"ended,omitzero"`
	ElapsedSeconds  float64        `json:"elapsed_seconds"`
	Revision        int            `json:"revision,omitempty"`
	HoldTimeSeconds float64        `json:"hold_time_seconds,omitempty"`
	Holds           []holdSummary  `json:"holds,omitempty"`
	Outputs         map[string]any `json:"outputs,omitempty"`
	Message         string         `json:"message,omitempty"`
	Error           string         `json:"error,omitempty"`
	Hint            string         `json:"hint,omitempty"`
}

type holdSummary struct {
	Webhook        string  `json:"webhook"`
	Service        string  `json:"service,omitempty"`
	Cause          string  `json:"cause,omitempty"`
	Explanation    string  `json:"explanation,omitempty"`
	Requests       int     `json:"requests"`
	Failed         int     `json:"failed,omitempty"`
	Sends          int     `json:"sends,omitempty"`
	TotalSeconds   float64 `json:"total_seconds"`
	LongestSeconds float64 `json:"longest_seconds"`
}

func (x *Execution) summarize(s *Step) stepSummary {
	out := stepSummary{
		Name: s.Name, Kind: s.Kind, Cluster: s.Cluster, State: s.State, Needs: s.Needs,
		Attempt: s.Attempt, Attempts: s.Attempts, Started: s.Started, Ended: s.Ended,
		ElapsedSeconds: s.Elapsed(x.last).Seconds(), Revision: s.Revision,
		HoldTimeSeconds: s.HoldTime(x.last).Seconds(),
		Outputs:         s.Outputs, Message: s.Message, Error: s.Error, Hint: s.Hint,
	}
	if s.State == StateBlocked {
		out.BlockedBy = x.WhyBlocked(s.Name)
	}
	for _, h := range s.HoldsAt(x.last) {
		out.Holds = append(out.Holds, holdSummary{
			Webhook: h.Webhook, Service: h.Service, Cause: h.Cause, Explanation: h.Explanation,
			Requests: h.Requests, Failed: h.Failed, Sends: h.Sends,
			TotalSeconds: h.Total.Seconds(), LongestSeconds: h.Longest.Seconds(),
		})
	}
	return out
}
