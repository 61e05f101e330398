package fleet

import (
	"time"
)

// Decision is what is to be done now.
type Decision struct {
	// Events are to be told: waves that enter a state, and why nothing new starts. Ask again
	// once they were applied.
	Events []Event
	// Start are clusters that may begin, in their order. There are none with Events.
	Start []string
	// Again is when to ask again though nothing happened; zero is never.
	Again time.Time
	// Over says that nothing is at work and nothing will start any more.
	Over bool
}

// Decide returns what is to be done at a time. It changes nothing.
func (x *Execution) Decide(now time.Time) Decision {
	if d := x.stops(); len(d.Events) > 0 {
		return d
	}
	if x.Stop != nil {
		return x.wind()
	}
	for i, w := range x.Waves {
		if w.State == WaveSucceeded || w.State == WaveFailed {
			continue
		}
		return x.advance(w, i == len(x.Waves)-1, now)
	}
	return Decision{Over: true}
}

// stops finds why nothing new may start from now on.
func (x *Execution) stops() Decision {
	if x.Stop != nil {
		return Decision{}
	}
	stop := x.overspent()
	if x.Control.Aborted {
		stop = &Stop{Kind: StopAborted, By: x.Control.By}
	}
	if stop == nil {
		return Decision{}
	}
	return Decision{Events: []Event{{Type: TypeStop, Reason: stop, Wave: stop.Wave}}}
}

// overspent is the limit that more clusters failed than it allows; nil while there is none.
func (x *Execution) overspent() *Stop {
	limits := x.limits()
	unreachable := 0
	for _, w := range x.Waves {
		failed := 0
		for _, c := range w.Members {
			switch {
			case c.State != Failed:
			case c.unreachable() && limits.Unreachable != nil:
				unreachable++
			default:
				failed++
			}
		}
		if failed > w.MaxFailures {
			return &Stop{Kind: StopFailures, Wave: w.Name, Failed: failed, Allowed: w.MaxFailures}
		}
	}
	if limits.Unreachable != nil && unreachable > *limits.Unreachable {
		return &Stop{Kind: StopUnreachable, Failed: unreachable, Allowed: *limits.Unreachable}
	}
	if limits.SameCause == nil {
		return nil
	}
	for _, g := range x.Failures() {
		if n := len(g.Clusters); n > *limits.SameCause && (g.Cause.Class != Unreachable || limits.Unreachable == nil) {
			return &Stop{Kind: StopCause, Cause: g.Cause, Failed: n, Allowed: *limits.SameCause}
		}
	}
	return nil
}

func (x *Execution) limits() Limits {
	if x.First.Limits == nil {
		return Limits{}
	}
	return *x.First.Limits
}

func (c *ClusterStatus) unreachable() bool {
	return c.Result != nil && c.Result.Cause != nil && c.Result.Cause.Class == Unreachable
}

// wind ends what a stopped run has left: what did not start never will.
func (x *Execution) wind() Decision {
	var d Decision
	active := false
	for _, c := range x.Clusters {
		if c.State == Pending {
			d.Events = append(d.Events, Event{Type: TypeCluster, Cluster: c.Name, Wave: c.Wave, State: NotStarted})
		}
		active = active || c.State.Active()
	}
	for _, w := range x.Waves {
		switch {
		case w.State.Over() || w.State == WaveRunning && active:
		case w.State == WaveRunning:
			d.Events = append(d.Events, Event{Type: TypeWave, Wave: w.Name, WaveState: WaveFailed})
		case w.State == WaveSoaking:
			d.Events = append(d.Events, Event{Type: TypeWave, Wave: w.Name, WaveState: WaveSucceeded, Until: w.Until}) // a resumed run waits for the rest
		default:
			d.Events = append(d.Events, Event{Type: TypeWave, Wave: w.Name, WaveState: WaveNotStarted})
		}
	}
	d.Over = len(d.Events) == 0 && !active
	return d
}

// advance takes a wave a step further.
func (x *Execution) advance(w *WaveStatus, last bool, now time.Time) Decision {
	enter := func(s WaveState, until time.Time) Decision {
		return Decision{Events: []Event{{Type: TypeWave, Wave: w.Name, WaveState: s, Until: until}}}
	}
	switch w.State {
	case WavePending, WaveApproval:
		switch {
		case w.Approve && !x.Control.Approves(w.Name) && w.State == WavePending:
			return enter(WaveApproval, time.Time{})
		case w.Approve && !x.Control.Approves(w.Name), x.Control.Paused:
			return Decision{}
		}
		return enter(WaveRunning, time.Time{})
	case WaveSoaking:
		if now.Before(w.Until) {
			return Decision{Again: w.Until}
		}
		return enter(WaveSucceeded, time.Time{})
	case WaveRunning, WaveSucceeded, WaveFailed, WaveNotStarted:
	}
	d, left := x.start(w)
	switch soak := time.Duration(w.SoakSeconds * float64(time.Second)); {
	case left:
		return d
	case soak > 0 && !last:
		return enter(WaveSoaking, now.Add(soak))
	}
	return enter(WaveSucceeded, time.Time{})
}

// start picks the clusters of a wave that begin now, and reports whether any is not over.
func (x *Execution) start(w *WaveStatus) (d Decision, left bool) {
	active := 0
	for _, c := range w.Members {
		if c.State.Active() {
			active++
		}
		left = left || !c.State.Over()
	}
	for _, c := range w.Members {
		if x.Control.Paused || active >= w.Parallel {
			break
		}
		if c.State == Pending {
			d.Start = append(d.Start, c.Name)
			active++
		}
	}
	return d, left
}

// Outcome is the state of a run that is over: failed when a cluster failed, cancelled when
// it was stopped by people, else succeeded.
func (x *Execution) Outcome() State {
	n := x.Counts()
	switch {
	case x.Stop != nil && (x.Stop.Kind == StopAborted || x.Stop.Kind == StopInterrupted), n[Cancelled] > 0:
		return Cancelled
	case n[Failed] > 0 || n[NotStarted] > 0:
		return Failed
	}
	return Succeeded
}
