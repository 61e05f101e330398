package fleet

import "time"

// Type says what an event of a fleet's run tells.
type Type string

// The types of events.
const (
	// TypeFleet is the first event: it lists waves and clusters.
	TypeFleet Type = "fleet"
	// TypeWave says that a wave entered a state.
	TypeWave Type = "wave"
	// TypeCluster says that a cluster entered a state, or how far it is.
	TypeCluster Type = "cluster"
	// TypeControl says that somebody gave an order: Control has what holds from now on.
	TypeControl Type = "control"
	// TypeStop says that nothing new starts, and why; what runs goes on to its end.
	TypeStop Type = "stop"
	// TypeResume begins another round: what is unfinished is to be done again.
	TypeResume Type = "resume"
	// TypeMessage tells people something that changes nothing.
	TypeMessage Type = "message"
	// TypeDone is the last event of a round.
	TypeDone Type = "done"
)

// EventVersion is the version of the events' form, in the first event. Fields may be added
// within a version; none changes its meaning or goes away.
const EventVersion = 1

// Event is one fact about a run of a fleet: a flat value, numbered from 1 without gaps. What
// happens within a cluster are events of package runner, which are kept apart.
type Event struct {
	// Seq numbers the events from 1, without gaps, and Time is when it happened.
	Seq  int       `json:"seq"`
	Time time.Time `json:"time"`
	Type Type      `json:"type"`
	// Version is EventVersion, in the first event.
	Version int `json:"version,omitempty"`
	// Fleet and Plan are names, Run is the run's ID, Engine is local or kubernetes, and
	// Digest is the rollout's, all in the first event.
	Fleet  string `json:"fleet,omitempty"`
	Plan   string `json:"plan,omitempty"`
	Run    string `json:"run,omitempty"`
	Engine string `json:"engine,omitempty"`
	Digest string `json:"digest,omitempty"`
	// By is who runs it, as USER@HOST, and Program what, in the first event; By is who gave
	// the order in control and resume.
	By      string `json:"by,omitempty"`
	Program string `json:"program,omitempty"`
	// Waves, Clusters and Limits are those of the rollout, in the first event.
	Waves    []WaveInfo    `json:"waves,omitempty"`
	Clusters []ClusterInfo `json:"clusters,omitempty"`
	Limits   *Limits       `json:"limits,omitempty"`
	// Wave and WaveState are in wave; Wave also in what concerns one.
	Wave      string    `json:"wave,omitempty"`
	WaveState WaveState `json:"wave_state,omitempty"`
	// Until is when the soak time of a wave is over, in wave.
	Until time.Time `json:"until,omitzero"`
	// Cluster is what the event is about, and State its state, in cluster.
	Cluster string `json:"cluster,omitempty"`
	State   State  `json:"state,omitempty"`
	// Attempt counts from 1 how often the cluster was begun, in cluster: an evicted worker
	// has a successor.
	Attempt int `json:"attempt,omitempty"`
	// Progress is how far the cluster is, and Hold what it waits for, in cluster.
	Progress *Progress `json:"progress,omitempty"`
	Hold     *Hold     `json:"hold,omitempty"`
	// Result is what became of the cluster, when State is over.
	Result *Result `json:"result,omitempty"`
	// Control is what holds, in control.
	Control *Control `json:"control,omitempty"`
	// Reason is why nothing new starts, in stop.
	Reason *Stop `json:"reason,omitempty"`
	// Round counts from 1 how often the run was begun or resumed, in fleet and resume.
	Round int `json:"round,omitempty"`
	// RunState is succeeded, failed or cancelled, and Counts has the clusters by state, in
	// done.
	RunState State         `json:"run_state,omitempty"`
	Counts   map[State]int `json:"counts,omitempty"`
	// Message is for people: one line. Error and Hint are set when something is wrong that
	// is no cluster's.
	Message string `json:"message,omitempty"`
	Error   string `json:"error,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

// ClusterInfo is what the first event says of a cluster.
type ClusterInfo struct {
	// Name is the cluster's, Wave that of its wave, and Server the address of its API server.
	Name   string `json:"name"`
	Wave   string `json:"wave"`
	Server string `json:"server,omitempty"`
	// Source is where it was found, for people: capi mgmt prod/east-1.
	Source string `json:"source,omitempty"`
}

// Progress is how far the plan is on a cluster.
type Progress struct {
	// Done of Total steps have ended well.
	Done  int `json:"done"`
	Total int `json:"total"`
	// Step is one that is at work, and Message what it says.
	Step    string `json:"step,omitempty"`
	Message string `json:"message,omitempty"`
}

// Hold says which webhook a cluster's requests are held for.
type Hold struct {
	// Webhook is its name.
	Webhook string `json:"webhook"`
	// Service is the webhook's, as namespace/name; Cause is why it cannot answer.
	Service string `json:"service,omitempty"`
	Cause   string `json:"cause,omitempty"`
	// Requests are held now.
	Requests int `json:"requests"`
}

// Result is what became of the plan on a cluster. As JSON it has at most 4 KiB, so that a
// pod's termination message has room for it.
type Result struct {
	// State is the cluster's in the end.
	State State `json:"state"`
	// Run is the run's ID in the cluster's own records.
	Run string `json:"run,omitempty"`
	// Started and Ended are by the clock of who ran it.
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	// Steps counts the plan's steps by state.
	Steps map[string]int `json:"steps,omitempty"`
	// HeldSeconds is how long at least one request was held.
	HeldSeconds float64 `json:"held_seconds,omitempty"`
	// Cause, Error and Hint are set when it failed; Error is the first failed step's.
	Cause *Cause `json:"cause,omitempty"`
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// Stop says why nothing new starts.
type Stop struct {
	// Kind is max_failures, same_cause, unreachable, aborted or interrupted.
	Kind string `json:"kind"`
	// Wave is that of max_failures, and Cause that of same_cause.
	Wave  string `json:"wave,omitempty"`
	Cause *Cause `json:"cause,omitempty"`
	// Failed are so many where Allowed are allowed.
	Failed  int `json:"failed,omitempty"`
	Allowed int `json:"allowed,omitempty"`
	// By is who aborted.
	By string `json:"by,omitempty"`
}

// The kinds of stops.
const (
	StopFailures    = "max_failures"
	StopCause       = "same_cause"
	StopUnreachable = "unreachable"
	StopAborted     = "aborted"
	StopInterrupted = "interrupted"
)
