package fleet

// State is where a cluster is in a run.
//
//	pending ──► running ◄──► holding      a request of it is held for a webhook
//	 │             │            │
//	 │             ├────────────┤
//	 │             ├──► succeeded          its plan is done
//	 │             ├──► unchanged          the same, and there was nothing to do
//	 │             ├──► failed             a step failed, or it is out of reach
//	 │             └──► cancelled          it was stopped at work
//	 └──► not_started                      the run was stopped before
//
// A run that is resumed puts what failed, was cancelled or not started back to pending.
type State string

// The states of a cluster.
const (
	Pending    State = "pending"
	Running    State = "running"
	Holding    State = "holding"
	Succeeded  State = "succeeded"
	Unchanged  State = "unchanged"
	Failed     State = "failed"
	Cancelled  State = "cancelled"
	NotStarted State = "not_started"
)

// States are all states of a cluster, in the order that people read them in counts.
var States = []State{Succeeded, Unchanged, Failed, Cancelled, NotStarted, Holding, Running, Pending}

// Good reports whether the plan is done on the cluster.
func (s State) Good() bool { return s == Succeeded || s == Unchanged }

// Active reports whether the plan is at work on the cluster.
func (s State) Active() bool { return s == Running || s == Holding }

// Over reports whether nothing more happens on the cluster in this run.
func (s State) Over() bool { return s.Good() || s == Failed || s == Cancelled || s == NotStarted }

// WaveState is where a wave is in a run.
//
//	pending ──► approval ──► running ──► soaking ──► succeeded
//	                            │
//	                            └──► failed
//
// A wave that was never begun when the run is stopped is not_started.
type WaveState string

// The states of a wave.
const (
	WavePending WaveState = "pending"
	// WaveApproval waits for somebody to approve the wave.
	WaveApproval WaveState = "approval"
	WaveRunning  WaveState = "running"
	// WaveSoaking has ended well, and the next one waits for its soak time.
	WaveSoaking    WaveState = "soaking"
	WaveSucceeded  WaveState = "succeeded"
	WaveFailed     WaveState = "failed"
	WaveNotStarted WaveState = "not_started"
)

// Over reports whether nothing more happens in the wave.
func (s WaveState) Over() bool {
	return s == WaveSucceeded || s == WaveFailed || s == WaveNotStarted
}
