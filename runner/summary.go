package runner

import (
	"encoding/json"
	"time"
)

// StepSummary is what became of one step, as `kplan run -o json` and the JSON report
// write it. The fields that identify the step, and its State, are the writer's own.
type StepSummary struct {
	BlockedBy      []string  `json:"blocked_by,omitempty"`
	Attempt        int       `json:"attempt,omitempty"`
	Attempts       int       `json:"attempts,omitempty"`
	Started        time.Time `json:"started,omitzero"`
	Ended          time.Time `json:"ended,omitzero"`
	ElapsedSeconds float64   `json:"elapsed_seconds"`
	// GroupWaitSeconds is how long the step waited for its concurrency group.
	GroupWaitSeconds float64        `json:"group_wait_seconds,omitempty"`
	Revision         int            `json:"revision,omitempty"`
	HoldTimeSeconds  float64        `json:"hold_time_seconds,omitempty"`
	Holds            []HoldSummary  `json:"holds,omitempty"`
	Hooks            []HookSummary  `json:"hooks,omitempty"`
	Outputs          map[string]any `json:"outputs,omitempty"`
	Message          string         `json:"message,omitempty"`
	Error            string         `json:"error,omitempty"`
	Hint             string         `json:"hint,omitempty"`
}

// HoldSummary is a Hold as JSON has it.
type HoldSummary struct {
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

// HookSummary is a HookRun as JSON has it.
type HookSummary struct {
	Object string `json:"object"`
	Hook
	Started        time.Time `json:"started"`
	Ended          time.Time `json:"ended,omitzero"`
	ElapsedSeconds float64   `json:"elapsed_seconds"`
	Error          string    `json:"error,omitempty"`
}

// Summarize returns what became of a step of x up to now.
func (x *Execution) Summarize(s *Step, now time.Time) StepSummary {
	out := StepSummary{
		Attempt: s.Attempt, Attempts: s.Attempts, Started: s.Started, Ended: s.Ended,
		ElapsedSeconds: s.Elapsed(now).Seconds(), GroupWaitSeconds: s.GroupWait(now).Seconds(), Revision: s.Revision, HoldTimeSeconds: s.HoldTime(now).Seconds(),
		Outputs: s.Outputs, Message: s.Message, Error: s.Error, Hint: s.Hint,
	}
	if s.State == StateBlocked {
		out.BlockedBy = x.WhyBlocked(s.Name)
	}
	for _, h := range s.HoldsAt(now) {
		out.Holds = append(out.Holds, HoldSummary{
			Webhook: h.Webhook, Service: h.Service, Cause: h.Cause, Explanation: h.Explanation,
			Requests: h.Requests, Failed: h.Failed, Sends: h.Sends,
			TotalSeconds: h.Total.Seconds(), LongestSeconds: h.Longest.Seconds(),
		})
	}
	for _, h := range s.Hooks {
		out.Hooks = append(out.Hooks, HookSummary{
			Object: h.Object, Hook: h.Hook, Started: h.Started, Ended: h.Ended, ElapsedSeconds: h.Elapsed(now).Seconds(), Error: h.Error,
		})
	}
	return out
}

// MarshalJSON returns the summary of the run, for `kplan run -o json`.
func (x *Execution) MarshalJSON() ([]byte, error) {
	type step struct {
		Name    string   `json:"name"`
		Kind    string   `json:"kind"`
		Cluster string   `json:"cluster,omitempty"`
		State   State    `json:"state"`
		Needs   []string `json:"needs,omitempty"`
		StepSummary
	}
	steps := []step{}
	for _, s := range x.steps {
		steps = append(steps, step{s.Name, s.Kind, s.Cluster, s.State, s.Needs, x.Summarize(s, x.last)})
	}
	return json.Marshal(struct {
		Plan           string        `json:"plan"`
		State          State         `json:"state"`
		Error          string        `json:"error,omitempty"`
		Started        time.Time     `json:"started"`
		ElapsedSeconds float64       `json:"elapsed_seconds"`
		Counts         map[State]int `json:"counts"`
		Steps          []step        `json:"steps"`
		Races          []Race        `json:"races"`
	}{x.plan, x.state, x.err, x.started, x.Elapsed().Seconds(), x.Counts(), steps, x.Races()})
}
