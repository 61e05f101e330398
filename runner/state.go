package runner

// State is where a step is in its life.
//
//	               ┌────────── released ─────────┐
//	               ▼                             │
//	pending ──► running ───────── held ──────► holding
//	 │ │           │                             │
//	 │ │           ├─────────────────────────────┤   the action returned:
//	 │ │           ├──► succeeded                │   nil
//	 │ │           ├──► unchanged                │   nil, and there was nothing to do
//	 │ │           ├──► retrying ──► running …   │   an error that another attempt may mend
//	 │ │           └──► failed                   ┘   any other error
//	 │ └──► skipped                                  it need not run
//	 └────► blocked                                  a step that it needs failed
//
// A deferred step that asks a cluster whether it runs becomes skipped from running.
// By an order a failed step becomes pending again, with those that it blocked, and
// a step which waits becomes skipped.
// Every state that is not terminal becomes cancelled when the run is stopped.
type State string

// The states of a step. A run as a whole is running, succeeded, failed or cancelled.
const (
	// StatePending waits for the steps that it needs, for its concurrency group, or for a
	// free slot.
	StatePending State = "pending"
	// StateRunning is at work.
	StateRunning State = "running"
	// StateHolding is running with at least one request held for a webhook.
	StateHolding State = "holding"
	// StateRetrying waits for its next attempt.
	StateRetrying State = "retrying"
	// StateSucceeded is done.
	StateSucceeded State = "succeeded"
	// StateUnchanged is done, and there was nothing to do.
	StateUnchanged State = "unchanged"
	// StateFailed has failed for good.
	StateFailed State = "failed"
	// StateSkipped was left out on purpose; steps that need it may run.
	StateSkipped State = "skipped"
	// StateBlocked never ran, because a step that it needs failed.
	StateBlocked State = "blocked"
	// StateCancelled was stopped, or never started, because the run was.
	StateCancelled State = "cancelled"
)

// States are all states, in the order that people read them in counts.
var States = []State{
	StateSucceeded, StateUnchanged, StateSkipped, StateFailed, StateBlocked, StateCancelled,
	StateRunning, StateHolding, StateRetrying, StatePending,
}

// Terminal reports whether a step in this state will not change again without an
// order.
func (s State) Terminal() bool {
	return s.Good() || s == StateFailed || s == StateBlocked || s == StateCancelled
}

// Good reports whether the steps that need one in this state may run.
func (s State) Good() bool {
	return s == StateSucceeded || s == StateUnchanged || s == StateSkipped
}

// Active reports whether a step in this state has an action at work.
func (s State) Active() bool { return s == StateRunning || s == StateHolding }
