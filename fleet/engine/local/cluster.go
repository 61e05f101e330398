package local

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/member"
	"github.com/kplan-dev/kplan/runner"
)

// start begins to run the plan on a cluster, in a goroutine that ends with the cluster's run.
func (l *loop) start(name string) {
	c := l.x.Cluster(name)
	attempt, wave := c.Attempt+1, c.Wave
	l.running[name] = true
	l.emit(fleet.Event{Type: fleet.TypeCluster, Cluster: name, Wave: wave, State: fleet.Running, Attempt: attempt})
	go func() {
		result := l.do(name, wave, attempt)
		l.tell(message{over: true, event: fleet.Event{Type: fleet.TypeCluster, Cluster: name, Wave: wave, State: result.State, Result: result}})
	}()
}

// do runs the plan on a cluster.
func (l *loop) do(name, wave string, attempt int) (result *fleet.Result) {
	started := time.Now().UTC()
	defer func() {
		if v := recover(); v != nil {
			text := fmt.Sprintf("panic: %v", v)
			result = &fleet.Result{
				State: fleet.Failed, Started: started, Ended: time.Now().UTC(), Error: text, Hint: "this is a bug in kplan",
				Cause: fleet.NewCause(fleet.StepFailed, "", text, name),
			}
			l.message(name, wave, string(debug.Stack()))
		}
	}()
	f := &feed{loop: l, name: name, wave: wave}
	run := member.Run{
		Cluster: *l.clusters[name], Own: l.own[name], Again: attempt > 1, Abort: l.Abort,
		Observers: []runner.Observer{f}, Tell: func(text string) { l.message(name, wave, text) },
	}
	journal, err := l.Record.Cluster(name, attempt)
	if err == nil {
		run.Observers = append(run.Observers, journal)
		defer func() {
			if err := journal.Close(); err != nil {
				l.unwritten(name, wave, err)
			}
		}()
	} else {
		l.unwritten(name, wave, err)
	}
	return l.Members.Do(l.work, run)
}

func (l *loop) unwritten(name, wave string, err error) {
	l.message(name, wave, "its events are not written down: "+err.Error())
}

// message tells people something of a cluster.
func (l *loop) message(name, wave, text string) {
	l.tell(message{event: fleet.Event{Type: fleet.TypeMessage, Cluster: name, Wave: wave, Message: text}})
}

// tell hands a message to the loop, unless that is over.
func (l *loop) tell(m message) {
	select {
	case l.inbox <- m:
	case <-l.over:
	}
}

// progressEvery is how often a cluster tells how far it is.
const progressEvery = time.Second

// feed turns the events of a cluster's run into the fleet's. It is an Observer.
type feed struct {
	*loop
	name, wave string

	watch member.Watch
	state fleet.State
	hold  fleet.Hold
	told  time.Time // when progress was told last
}

var _ runner.Observer = (*feed)(nil)

// Observe implements runner.Observer. Holds are told at once, progress from time to time.
func (f *feed) Observe(e runner.Event) {
	if f.Inner != nil {
		f.Inner(f.name, e)
	}
	f.watch.Apply(e)
	if e.Type == runner.TypeDone || e.Type == runner.TypeLog {
		return
	}
	state, hold := f.watch.State(), f.watch.Hold()
	news := state != f.state && f.state != "" || hold != nil && (hold.Webhook != f.hold.Webhook || hold.Cause != f.hold.Cause)
	if !news && e.Time.Sub(f.told) < progressEvery {
		return
	}
	f.state, f.told = state, e.Time
	if f.hold = (fleet.Hold{}); hold != nil {
		f.hold = *hold
	}
	progress := f.watch.Progress()
	f.tell(message{event: fleet.Event{Type: fleet.TypeCluster, Cluster: f.name, Wave: f.wave, State: state, Progress: &progress, Hold: hold}})
}
