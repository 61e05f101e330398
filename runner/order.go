package runner

import (
	"container/heap"
	"fmt"
	"slices"

	"github.com/kplan-dev/kplan/plan"
)

// Order tells a run what to do, from somebody who watches it. Each is answered by
// an event of type order.
type Order struct {
	Verb Verb
	// Step is the step that it is about; "" for OrderEnd.
	Step string
}

// Verb is what an order wants.
type Verb string

// The verbs.
const (
	// OrderRetry starts the next attempt of a step now. One that failed gets all of
	// its attempts once more, and so do the steps that it alone blocked.
	OrderRetry Verb = "retry"
	// OrderSkip skips a step which only waits: of kind wait or webhook. Those that
	// need it may run.
	OrderSkip Verb = "skip"
	// OrderEnd ends a run that lingers.
	OrderEnd Verb = "end"
)

const byHand = "by hand"

// obey does what an order wants, or tells why not.
func (l *loop) handleOrder(o Order) {
	e := Event{Type: TypeOrder, Step: o.Step, Message: string(o.Verb)}
	t := l.byName[o.Step]
	do := func() {}
	var err error
	switch {
	case o.Verb == OrderEnd:
		l.linger = false
	case t == nil:
		e.Step, err = "", fmt.Errorf("the plan has no step %q", o.Step)
	case t.step.Last != l.last:
		err = fmt.Errorf("it is not the turn of step %q", o.Step)
	case o.Verb == OrderRetry:
		do, err = l.retryOrder(t)
	case o.Verb == OrderSkip:
		do, err = l.skipOrder(t)
	default:
		err = fmt.Errorf("there is no order %q", o.Verb)
	}
	if err != nil {
		e.Error = err.Error()
		l.emit(e)
		return
	}
	l.emit(e)
	do()
}

// retrying gives what makes t try again now.
func (l *loop) retryOrder(t *task) (func(), error) {
	switch s := l.state(t); {
	case l.stopped != nil:
		return nil, fmt.Errorf("the run is told to stop")
	case s == StateRetrying && t.delayOver:
		return nil, fmt.Errorf("step %q waits for a free slot", t.step.Name)
	case s == StateRetrying:
		return func() { l.delayOver(t) }, nil
	case s == StateFailed:
		return func() { l.restart(t) }, nil
	default:
		return nil, fmt.Errorf("step %q is %s; only one that failed, or waits for its next attempt, can be retried", t.step.Name, s)
	}
}

// rested makes t, whose delay is over, ready for its next attempt.
func (l *loop) delayOver(t *task) {
	l.waiting--
	t.delayOver = true
	heap.Push(&l.ready, t)
}

// revive lets t, which failed, start over, and the steps that are blocked for
// nothing else wait for it again.
func (l *loop) restart(t *task) {
	t.err, t.lastErr, t.ctx, t.delays = nil, nil, nil, nil
	t.attempts = t.attempt + max(t.retry.InstallRetries, 1)
	revived := map[*task]bool{t: true}
	for again := true; again; {
		again = false
		for _, d := range l.tasks {
			if !revived[d] && l.state(d) == StateBlocked && !slices.ContainsFunc(d.needs, func(e edge) bool { return l.keepsBlocked(e, revived) }) {
				revived[d], again = true, true
			}
		}
	}
	for _, d := range l.tasks {
		if revived[d] {
			d.willBlock = false
			l.enter(d, Event{State: StatePending, Message: fmt.Sprintf("step %q is retried %s", t.step.Name, byHand)})
		}
	}
	for _, d := range l.tasks { // whatever waits has to wait for these too
		if d.step.Last == l.last && l.state(d) == StatePending && d.missing > 0 || revived[d] {
			d.missing = 0
			for _, e := range d.needs {
				if !l.state(e.task).Terminal() {
					d.missing++
				}
			}
		}
	}
	heap.Push(&l.ready, t)
}

// bars tells whether what e leads to keeps a step from running, once the revived
// ones are not to blame any more.
func (l *loop) keepsBlocked(e edge, revived map[*task]bool) bool {
	if e.task == nil {
		return true
	}
	s := l.state(e.task)
	return (e.on == "" || e.on == plan.NeedSuccess) && !revived[e.task] && s.Terminal() && !s.Good()
}

// skipping gives what skips t.
func (l *loop) skipOrder(t *task) (func(), error) {
	s := l.state(t)
	if k := t.step.Kind(); k != plan.KindWait && k != plan.KindWebhook {
		return nil, fmt.Errorf("step %q is not skipped: only steps that wait can be, of kind wait or webhook", t.step.Name)
	}
	switch {
	case s.Terminal():
		return nil, fmt.Errorf("step %q is %s already", t.step.Name, s)
	case t.active:
		return func() { // see ended
			t.skipped = true
			t.cancel()
		}, nil
	case s == StateRetrying:
		return func() {
			if !t.delayOver {
				l.waiting--
			}
			l.skipNow(t)
		}, nil
	case t.missing > 0:
		return func() { t.step.Skip = "skipped " + byHand }, nil // when its turn comes
	}
	return func() { l.skipNow(t) }, nil
}

// drop skips t, which is not at work.
func (l *loop) skipNow(t *task) {
	queues := []*queue{&l.ready}
	if t.group != nil {
		queues = append(queues, &t.group.parked)
	}
	for _, q := range queues {
		if i := slices.Index(*q, t); i >= 0 {
			heap.Remove(q, i)
		}
	}
	l.end(t, Event{State: StateSkipped, Message: "skipped " + byHand})
	l.propagate(t)
	l.unpark(t.group) // t may have left the queue for another of its group
}

// lingers tells whether the run waits for orders although nothing is at work, and
// says so once.
func (l *loop) lingers() bool {
	if !l.linger || l.orders == nil || l.last || l.stopped != nil || len(l.exec.Failed()) == 0 {
		return false
	}
	if !l.exec.Paused() {
		l.emit(Event{Type: TypePaused, Message: "steps failed; the run waits to be told to retry them or to end"})
	}
	return true
}
