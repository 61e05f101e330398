package runner

import (
	"errors"
	"fmt"

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

// handleOrder does what an order wants, or tells why not.
func (l *loop) handleOrder(o Order) {
	e := Event{Type: TypeOrder, Step: o.Step, Message: string(o.Verb)}
	t := l.sched.byName[o.Step]
	do := func() {}
	var err error
	switch {
	case o.Verb == OrderEnd:
		l.linger = false
	case t == nil:
		e.Step, err = "", fmt.Errorf("the plan has no step %q", o.Step)
	case t.step.Last != l.sched.finally:
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
		l.record.emit(e)
		return
	}
	l.record.emit(e)
	do()
}

// retryOrder returns what makes t try again now, or why it does not.
func (l *loop) retryOrder(t *task) (func(), error) {
	switch s := l.record.state(t); {
	case l.stopped != nil:
		return nil, errors.New("the run is told to stop")
	case s == StateRetrying && t.delayOver:
		return nil, fmt.Errorf("step %q waits for a free slot", t.step.Name)
	case s == StateRetrying:
		return func() { l.sched.endDelay(t) }, nil
	case s == StateFailed:
		return func() {
			t.err, t.lastErr, t.ctx, t.delays = nil, nil, nil, nil
			t.attempts = t.attempt + max(t.retry.InstallRetries, 1)
			l.sched.restart(t, fmt.Sprintf("step %q is retried %s", t.step.Name, byHand))
		}, nil
	default:
		return nil, fmt.Errorf("step %q is %s; only one that failed, or waits for its next attempt, can be retried", t.step.Name, s)
	}
}

// skipOrder returns what skips t, or why it is not skipped.
func (l *loop) skipOrder(t *task) (func(), error) {
	if k := t.step.Kind(); k != plan.KindWait && k != plan.KindWebhook {
		return nil, fmt.Errorf("step %q is not skipped: only steps that wait can be, of kind wait or webhook", t.step.Name)
	}
	switch s := l.record.state(t); {
	case s.Terminal():
		return nil, fmt.Errorf("step %q is %s already", t.step.Name, s)
	case t.active:
		return func() { // see attemptEnded
			t.skipped = true
			t.cancel()
		}, nil
	case s != StateRetrying && t.missing > 0:
		return func() { t.step.Skip = "skipped " + byHand }, nil // when its turn comes
	}
	return func() {
		l.sched.remove(t)
		l.end(t, Event{State: StateSkipped, Message: "skipped " + byHand})
		l.sched.unpark(t.group) // t may have left the queue for another of its group
	}, nil
}

// lingers reports whether the run waits for orders although nothing is at work, and
// says so once.
func (l *loop) lingers() bool {
	if !l.linger || l.orders == nil || l.sched.finally || l.stopped != nil || len(l.record.exec.Failed()) == 0 {
		return false
	}
	if !l.record.exec.Paused() {
		l.record.emit(Event{Type: TypePaused, Message: "steps failed; the run waits to be told to retry them or to end"})
	}
	return true
}
