package local

import (
	"context"
	"time"

	"github.com/kplan-dev/kplan/fleet"
)

// run goes on until nothing is at work and nothing will start, or the run was aborted.
func (l *loop) run(ctx context.Context) {
	var (
		done  = ctx.Done()
		abort = l.Abort
		late  <-chan time.Time // set once the run was aborted
	)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		next, over := l.decide()
		if over {
			l.end()
			return
		}
		if !next.IsZero() {
			again.Reset(time.Until(next))
		}
		select {
		case m := <-l.inbox:
			l.handle(m)
		case <-look.C:
			l.obey(l.control.changed())
		case <-again.C:
		case <-done:
			done = nil
			l.interrupt(context.Cause(ctx))
		case <-abort:
			abort, late = nil, time.After(lastWords)
			l.interrupt(&AbortedError{})
		case <-late:
			l.abandon()
			return
		}
	}
}

// decide does what is to be done now, and returns when to ask again, and whether all is over.
func (l *loop) decide() (again time.Time, over bool) {
	for {
		d := l.x.Decide(time.Now())
		for _, e := range d.Events {
			l.emit(e)
		}
		if len(d.Events) > 0 {
			continue
		}
		for _, name := range d.Start {
			if l.Parallel > 0 && len(l.running) >= l.Parallel {
				break
			}
			l.start(name)
		}
		return d.Again, d.Over && len(l.running) == 0
	}
}

// handle takes what a cluster's goroutine tells.
func (l *loop) handle(m message) {
	if m.over {
		delete(l.running, m.event.Cluster)
	}
	l.emit(m.event)
}

// obey takes what holds from now on; nil is no news.
func (l *loop) obey(c *fleet.Control) {
	if c == nil || c.Equal(l.x.Control) {
		return
	}
	l.emit(fleet.Event{Type: fleet.TypeControl, Control: c, By: c.By})
	if c.Aborted && c.Now {
		l.stop(&AbortedError{By: c.By})
	}
}

// interrupt lets nothing new start, and tells what is at work to stop.
func (l *loop) interrupt(cause error) {
	if l.x.Stop == nil {
		l.emit(fleet.Event{Type: fleet.TypeStop, Reason: &fleet.Stop{Kind: fleet.StopInterrupted, By: l.By}, Message: cause.Error()})
	}
	l.stop(cause)
}

// abandon gives up the clusters that are still at work.
func (l *loop) abandon() {
	for _, c := range l.x.Clusters {
		if l.running[c.Name] {
			l.emit(fleet.Event{Type: fleet.TypeCluster, Cluster: c.Name, Wave: c.Wave, State: fleet.Cancelled, Result: &fleet.Result{
				State: fleet.Cancelled, Started: c.Started, Ended: time.Now().UTC(), Error: "aborted at work",
			}})
		}
	}
	clear(l.running)
	l.decide()
	l.end()
}

// end tells the last event of the round.
func (l *loop) end() {
	l.emit(fleet.Event{Type: fleet.TypeDone, RunState: l.x.Outcome(), Counts: l.x.Counts()})
}
