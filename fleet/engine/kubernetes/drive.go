package kubernetes

import (
	"context"
	"errors"
	"time"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes/object"
	"github.com/kplan-dev/kplan/runner"
)

// Driver lets the waves of a run go, one after another, and tells what happens. It may end
// at any time, and any other may go on.
type Driver struct {
	*Run
	// Observe hears the events of the run from the goroutine of Do: first what happened
	// before, with the times of that, then what happens.
	Observe func(fleet.Event)
	// Inner hears the events of the clusters' own runs, from one goroutine; nil does not
	// read them.
	Inner func(cluster string, e runner.Event)
	// Watch does nothing but look, and Once does so once.
	Watch, Once bool
	// Round is the one to drive (default: the present one). In another nothing is done.
	Round int
}

// How often a driver looks at what does not call it, and how long after the first change it
// looks at all of them.
const (
	tick   = time.Second
	gather = 50 * time.Millisecond
)

// Do returns when the run is over, or the context ended: then with its cause, and the run
// goes on.
func (d *Driver) Do(ctx context.Context) (*fleet.Execution, error) {
	x := &fleet.Execution{}
	l := &loop{Driver: d, x: x, fold: newFold(d.Spec, x, d.Observe)}
	saved, err := d.Saved(ctx)
	if err != nil {
		return nil, err
	}
	if o, err := d.Orders(ctx); err != nil || d.Round != 0 && d.Round != o.Round {
		return x, err
	}
	l.saved = saved
	watching, stop := context.WithCancelCause(ctx)
	l.seen = d.watch(watching)
	if d.Inner != nil {
		l.logs = newLogs(watching, d.Run)
	}
	defer func() {
		stop(errOver)
		l.seen.wait()
		l.logs.wait()
	}()
	if err := l.seen.synced(ctx); err != nil {
		return nil, err
	}
	return x, l.run(ctx)
}

var (
	errOver  = errors.New("the run is no longer watched")
	errRound = errors.New("somebody else resumed the run: attach to it again")
)

// loop is a Driver at work. All of it is the goroutine's of Do.
type loop struct {
	*Driver
	x     *fleet.Execution
	fold  *fold
	seen  *seen
	logs  *logs
	saved object.Saved

	tried   time.Time // when results were saved last
	stopped time.Time // when the run was first seen to be stopped, or a pod of it at work after that
	away    time.Time // since when the API server does not answer
	told    map[string]bool
	looked  time.Time // when the Jobs' events were looked at
}

func (l *loop) run(ctx context.Context) error {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for {
		over, err := l.step(ctx)
		switch {
		case over:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			l.away = time.Time{}
		default:
			if err := l.absent(err); err != nil {
				return err
			}
		}
		if !l.next(ctx, ticks.C) {
			return context.Cause(ctx)
		}
	}
}

// next waits until it is time to look again. It reports false when the context ended.
func (l *loop) next(ctx context.Context, ticks <-chan time.Time) bool {
	wake, soon := l.seen.wake, (<-chan time.Time)(nil)
	for {
		select {
		case <-ticks:
			return true
		case <-soon:
			return true
		case <-wake:
			wake, soon = nil, time.After(gather)
		case e := <-l.logs.events():
			l.inner(e)
		case <-ctx.Done():
			return false
		}
	}
}

// absent tells that the management cluster does not answer, unless the run is gone.
func (l *loop) absent(err error) error {
	gone := (*AbsentError)(nil)
	if errors.As(err, &gone) {
		return err
	}
	now := time.Now()
	if l.away.IsZero() {
		l.away = now
	}
	if now.Sub(l.away) > 5*time.Second {
		l.say(fleet.Event{Message: "the management cluster does not answer as it should; asking again", Error: err.Error(), Hint: runner.HintOf(err)})
	}
	return nil
}

// say tells people something once.
func (l *loop) say(e fleet.Event) {
	if l.told == nil {
		l.told = map[string]bool{}
	}
	if key := e.Wave + e.Cluster + e.Message; !l.told[key] {
		l.told[key] = true
		e.Type, e.Time = fleet.TypeMessage, time.Now()
		l.fold.tell(e)
	}
}

// step looks at the run, and does what is to be done.
func (l *loop) step(ctx context.Context) (over bool, err error) {
	orders, err := l.Orders(ctx)
	if err != nil {
		return false, err
	}
	v, err := l.seen.view(l.Rollout, l.Spec.Run, orders.Round)
	if err != nil {
		return false, err
	}
	v.now, v.orders, v.saved = time.Now(), orders, l.saved
	if !l.fold.first && orders.Round != l.x.Round {
		return true, errRound
	}
	l.fold.see(v)
	var d fleet.Decision
	if l.x.Stop == nil || settled(v) {
		d = l.fold.decide(v)
	}
	l.follow(v)
	l.late(v.now)
	if l.Watch || l.Once {
		return l.watched(d, v)
	}
	if err := l.act(ctx, v); err != nil {
		return false, err
	}
	if d.Over {
		return true, l.finish(ctx)
	}
	l.troubles(ctx, v)
	return false, l.keep(ctx, v.now)
}

// watched ends a look that does nothing.
func (l *loop) watched(d fleet.Decision, v *view) (bool, error) {
	if d.Over {
		l.fold.tell(l.done(v.now))
	}
	return d.Over || l.Once, nil
}

// done is the last event.
func (l *loop) done(now time.Time) fleet.Event {
	at := now
	if l.saved.Ended >= l.x.Round {
		at = l.saved.At
	}
	return fleet.Event{Type: fleet.TypeDone, Time: at, RunState: l.x.Outcome(), Counts: l.x.Counts()}
}

// finish saves what became of the clusters, and tells the end of the run.
func (l *loop) finish(ctx context.Context) error {
	l.flush()
	e := l.done(time.Now())
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), 30*time.Second, errors.New("the management cluster does not answer"))
	defer cancel()
	for {
		_, err := l.save(ctx, func(s *object.Saved) {
			l.merge(s)
			if s.Ended < l.x.Round {
				s.Ended, s.State, s.At = l.x.Round, e.RunState, e.Time
			}
		})
		if err == nil || ctx.Err() != nil {
			l.fold.tell(e)
			return err
		}
		select {
		case <-time.After(tick):
		case <-ctx.Done():
		}
	}
}
