package fleet

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Execution is the fold of the events of a fleet's run: what is known after the last one
// that was applied. The zero value is ready for the first event.
//
// It is not safe for concurrent use: every renderer keeps its own.
type Execution struct {
	// First is the first event.
	First Event
	// Round counts from 1 how often the run was begun or resumed.
	Round int
	// State is running, succeeded, failed or cancelled; "" before the first event.
	State State
	// Started is when the round began, Last when its latest event was.
	Started, Last time.Time
	// Waves are in their order, and Clusters in that of the rollout. They change with the
	// Execution: only read them.
	Waves    []*WaveStatus
	Clusters []*ClusterStatus
	// Control is what people ordered, and Stop why nothing new starts; nil while it does.
	Control Control
	Stop    *Stop
	// Error and Hint are of the latest thing that is wrong and no cluster's.
	Error, Hint string

	byName map[string]*ClusterStatus
	byWave map[string]*WaveStatus
}

// WaveStatus is how a wave stands.
type WaveStatus struct {
	WaveInfo
	State WaveState
	// Since is when it entered State, and Until when its soak time is over: while it soaks, and
	// when the run was stopped before.
	Since, Until time.Time
	// Members are its clusters, in their order.
	Members []*ClusterStatus
}

// ClusterStatus is how a cluster stands.
type ClusterStatus struct {
	ClusterInfo
	State State
	// Since is when it entered State, Started when it was first begun in this round.
	Since, Started time.Time
	Attempt        int
	Progress       Progress
	// Hold is set while State is Holding.
	Hold *Hold
	// Result is set when State is over, and it was begun.
	Result *Result
}

// Apply folds one event. Events must come in order.
func (x *Execution) Apply(e Event) {
	x.Last = e.Time
	switch e.Type {
	case TypeFleet:
		x.begin(e)
	case TypeResume:
		x.resume(e)
	case TypeWave:
		if w := x.byWave[e.Wave]; w != nil {
			w.State, w.Since, w.Until = e.WaveState, e.Time, e.Until
		}
	case TypeCluster:
		if c := x.byName[e.Cluster]; c != nil {
			c.apply(e)
		}
	case TypeControl:
		if e.Control != nil {
			x.Control = *e.Control
		}
	case TypeStop:
		x.Stop = e.Reason
	case TypeMessage:
		if e.Error != "" {
			x.Error, x.Hint = e.Error, e.Hint
		}
	case TypeDone:
		x.State = e.RunState
		if e.Error != "" {
			x.Error, x.Hint = e.Error, e.Hint
		}
	}
}

func (x *Execution) begin(e Event) {
	*x = Execution{
		First: e, Round: cmp.Or(e.Round, 1), State: Running, Started: e.Time, Last: e.Time,
		byName: make(map[string]*ClusterStatus, len(e.Clusters)), byWave: map[string]*WaveStatus{},
	}
	for _, info := range e.Waves {
		w := &WaveStatus{WaveInfo: info, State: WavePending, Since: e.Time}
		x.Waves, x.byWave[info.Name] = append(x.Waves, w), w
	}
	for _, info := range e.Clusters {
		c := &ClusterStatus{ClusterInfo: info, State: Pending, Since: e.Time}
		x.Clusters, x.byName[info.Name] = append(x.Clusters, c), c
		if w := x.byWave[info.Wave]; w != nil {
			w.Members = append(w.Members, c)
		}
	}
}

// resume begins another round.
func (x *Execution) resume(e Event) {
	x.Round, x.State, x.Started, x.Stop, x.Error, x.Hint = cmp.Or(e.Round, x.Round+1), Running, e.Time, nil, "", ""
	x.Control.Paused, x.Control.Aborted, x.Control.Now, x.Control.Stop = false, false, false, nil
	for _, c := range x.Clusters {
		if !c.State.Good() {
			*c = ClusterStatus{ClusterInfo: c.ClusterInfo, State: Pending, Since: e.Time, Attempt: c.Attempt}
		}
	}
	for _, w := range x.Waves {
		if slices.ContainsFunc(w.Members, func(c *ClusterStatus) bool { return c.State == Pending }) {
			w.State, w.Since, w.Until = WavePending, e.Time, time.Time{}
		} else if w.State == WaveSucceeded && w.Until.After(e.Time) {
			w.State = WaveSoaking
		}
	}
}

// apply folds an event of the cluster.
func (c *ClusterStatus) apply(e Event) {
	if e.State != "" && e.State != c.State {
		c.State, c.Since = e.State, e.Time
	}
	if c.State.Active() && c.Started.IsZero() {
		c.Started = e.Time
	}
	if e.Attempt > 0 {
		c.Attempt = e.Attempt
	}
	if e.Progress != nil {
		c.Progress = *e.Progress
	}
	if e.Hold != nil || c.State != Holding {
		c.Hold = e.Hold
	}
	if e.Result != nil {
		c.Result = e.Result
	}
}

// Cluster is the cluster of that name, and Wave the wave; nil when there is none.
func (x *Execution) Cluster(name string) *ClusterStatus { return x.byName[name] }

// Wave is the wave of that name; nil when there is none.
func (x *Execution) Wave(name string) *WaveStatus { return x.byWave[name] }

// Counts counts the clusters by state.
func (x *Execution) Counts() map[State]int { return counts(x.Clusters) }

// Counts counts the wave's clusters by state.
func (w *WaveStatus) Counts() map[State]int { return counts(w.Members) }

func counts(all []*ClusterStatus) map[State]int {
	n := map[State]int{}
	for _, c := range all {
		n[c.State]++
	}
	return n
}

// Group is clusters of which one thing is to be said.
type Group struct {
	// Cause is why they failed, or Hold what they wait for.
	Cause *Cause
	Hold  *Hold
	// Clusters are in the order of the rollout.
	Clusters []*ClusterStatus
}

// Failures are the clusters that failed, by cause, those of most clusters first.
func (x *Execution) Failures() []Group {
	return group(x.Clusters, func(c *ClusterStatus) (Group, bool) {
		if c.State != Failed || c.Result == nil {
			return Group{}, false
		}
		return Group{Cause: cmp.Or(c.Result.Cause, &Cause{Class: StepFailed, Text: c.Result.Error})}, true
	})
}

// Holds are the clusters whose requests are held now, by webhook and cause, those of most
// clusters first.
func (x *Execution) Holds() []Group {
	return group(x.Clusters, func(c *ClusterStatus) (Group, bool) {
		if c.State != Holding || c.Hold == nil {
			return Group{}, false
		}
		return Group{Hold: &Hold{Webhook: c.Hold.Webhook, Service: c.Hold.Service, Cause: NewCause("", "", c.Hold.Cause, c.Name).Text}}, true
	})
}

// group puts clusters together whose groups say the same.
func group(all []*ClusterStatus, of func(*ClusterStatus) (Group, bool)) []Group {
	type key struct {
		cause Cause
		hold  Hold
	}
	byKey := map[key]*Group{}
	for _, c := range all {
		g, is := of(c)
		if !is {
			continue
		}
		var k key
		if g.Cause != nil {
			k.cause = *g.Cause
		}
		if g.Hold != nil {
			k.hold = *g.Hold
		}
		if byKey[k] == nil {
			byKey[k] = &g
		}
		byKey[k].Clusters = append(byKey[k].Clusters, c)
	}
	groups := make([]Group, 0, len(byKey))
	for g := range maps.Values(byKey) {
		groups = append(groups, *g)
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(len(b.Clusters), len(a.Clusters)), cmp.Compare(a.Clusters[0].Name, b.Clusters[0].Name))
	})
	return groups
}
