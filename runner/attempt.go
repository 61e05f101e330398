package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// message is what the loop's inbox takes: a report, or news of an attempt.
type message struct {
	task    *task
	attempt int
	kind    messageKind
	report  Report  // with newsReport
	err     error   // with newsEnded
	guards  []Guard // with newsGuards, which has no task
}

type messageKind int

const (
	messageReport messageKind = iota // the action reported something
	messageEnded                     // the action returned, or was given up
	messageBound                     // a late step has found what it is to do
	messageDue                       // the delay before the next attempt is over
	messageGuards                    // it was found which webhooks of the plan intercept what
)

// send delivers m, unless the run is over.
func (l *loop) send(m message) {
	select {
	case l.inbox <- m:
	case <-l.gone:
	}
}

// begin starts the next attempt of t.
func (l *loop) startAttempt(ctx context.Context, t *task) {
	if t.ctx == nil {
		t.ctx, t.cancel = context.WithTimeoutCause(ctx, t.timeout, &TimeoutError{After: t.timeout})
	} else if cause := context.Cause(t.ctx); cause != nil { // while it waited for a slot
		l.fail(t, timedOut(cause, t.lastErr), "")
		l.propagate(t)
		l.unpark(t.group)
		return
	}
	t.attempt++
	t.unchanged, t.delayOver, t.skipped, t.outputs = false, false, false, nil
	l.takeSlot(t)
	action := t.action
	if t.isDeferred() {
		action = l.deferredAction(t)
	}
	if !t.isDeferred() || t.asksCluster() { // else it is told at once whether the step runs
		l.enter(t, Event{State: StateRunning})
	}
	go l.runAttempt(t.ctx, t, t.attempt, action)
}

// work makes one attempt and tells the loop how it ended. It ends with the
// action, l.grace after ctx, or with the run when that is aborted.
func (l *loop) runAttempt(ctx context.Context, t *task, attempt int, action Action) {
	done := make(chan error, 1) // room for one, so that an abandoned action can end
	go func() { runAction(ctx, action, reporter{l, t, attempt}, done) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		timer := time.NewTimer(l.grace)
		defer timer.Stop()
		select {
		case err = <-done:
		case <-l.gone:
		case <-timer.C:
			err = &abandonedError{cause: context.Cause(ctx), grace: l.grace}
		}
	}
	l.send(message{task: t, attempt: attempt, kind: messageEnded, err: err})
}

// guard runs a and sends exactly one result, also when a panics or ends its
// goroutine.
func runAction(ctx context.Context, a Action, r Reporter, done chan<- error) {
	err := error(&panicError{value: "the action ended its goroutine"})
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{value: v, stack: string(debug.Stack())}
		}
		done <- err
	}()
	err = a.Run(ctx, r)
}

// reporter hands the reports of one attempt to the loop.
type reporter struct {
	loop    *loop
	task    *task
	attempt int
}

var _ Reporter = reporter{}

// Report implements Reporter.
func (r reporter) Report(rep Report) {
	r.loop.send(message{task: r.task, attempt: r.attempt, kind: messageReport, report: rep})
}

// handle takes one message. Those of an attempt that is over are dropped.
func (l *loop) handle(m message) {
	t := m.task
	switch {
	case m.kind == messageGuards:
		if len(m.guards) > 0 {
			l.emit(Event{Type: TypeGuards, Guards: l.markLate(m.guards)})
		}
	case m.attempt != t.attempt:
	case m.kind == messageReport && t.active:
		l.report(t, m.report)
	case m.kind == messageBound && t.active:
		l.show(t)
	case m.kind == messageEnded && t.active:
		l.freeSlot(t)
		if l.attemptEnded(t, m.err) {
			l.propagate(t)
		}
	case m.kind == messageDue && l.state(t) == StateRetrying && !t.delayOver:
		if cause := context.Cause(t.ctx); cause != nil {
			l.waiting--
			l.fail(t, timedOut(cause, t.lastErr), "")
			l.propagate(t)
			return
		}
		l.delayOver(t)
	}
}

// dated are guards with those marked that come late.
func (l *loop) markLate(guards []Guard) []Guard {
	guards = slices.Clone(guards)
	for i, g := range guards {
		if s := l.exec.Step(g.Step); s != nil && (s.State.Terminal() || s.Attempt > 1 || len(s.Holds) > 0) {
			guards[i].Late = true
		}
	}
	return guards
}

// show tells that t is at work, where that was not told when its attempt began.
func (l *loop) show(t *task) {
	if !l.state(t).Active() {
		l.enter(t, Event{State: StateRunning})
	}
}

// report turns a report into an event, and tells when the step begins or ends
// to hold requests.
func (l *loop) report(t *task, r Report) {
	e := Event{
		Type: r.Type, Step: t.step.Name, Message: r.Message, Object: r.Object, Of: r.Of,
		Done: r.Done, Total: r.Total, Revision: r.Revision, Webhook: r.Webhook, Error: r.Error,
	}
	switch r.Type {
	case TypeProgress, TypeHeld, TypeReleased, TypeWebhook, TypeLog:
	case TypeResult:
		t.unchanged = r.Unchanged
	case TypeOutputs:
		if t.outputs == nil {
			t.outputs = map[string]any{}
		}
		maps.Copy(t.outputs, r.Outputs)
		e.Outputs = shown(r.Outputs, r.Sensitive)
	default: // only the loop may say that a state changed or the run ended
		e.Type = TypeLog
	}
	l.emit(e)
	switch held, state := l.exec.steps[t.index].Held(), l.state(t); {
	case held > 0 && state == StateRunning:
		l.enter(t, Event{State: StateHolding})
	case held == 0 && state == StateHolding:
		l.enter(t, Event{State: StateRunning})
	}
}

// ended decides what becomes of t, whose action returned err. It reports whether
// that is the end of t.
func (l *loop) attemptEnded(t *task, err error) bool {
	if skip, ok := err.(*skipError); ok { //nolint:errorlint // only the runner makes it
		t.attempt = 0
		l.end(t, Event{State: StateSkipped, Message: skip.why})
		return true
	}
	l.show(t)
	var p *panicError
	if errors.As(err, &p) && p.stack != "" {
		l.emit(Event{Type: TypeLog, Step: t.step.Name, Message: p.stack})
	}
	cause := context.Cause(t.ctx)
	switch {
	case err == nil:
		l.succeed(t)
		return true
	case t.skipped && l.stopped == nil:
		l.end(t, Event{State: StateSkipped, Message: "skipped " + byHand})
		return true
	case l.stopped != nil && !t.step.Last:
		e := Event{State: StateCancelled, Message: "stopped at work", Hint: HintOf(err)}
		if err != l.stopped { //nolint:errorlint // an error that wraps it has more to say
			e.Error = err.Error()
		}
		l.end(t, e)
		return true
	case cause != nil:
		l.fail(t, timedOut(cause, err), "")
		return true
	case p != nil || t.attempt >= t.attempts:
		l.fail(t, err, "")
		return true
	}
	if again, why := retries(t.retry.On, err); !again {
		l.fail(t, err, why)
		return true
	}
	l.scheduleRetry(t, err)
	return false
}

func (l *loop) succeed(t *task) {
	state := StateSucceeded
	if t.unchanged {
		state = StateUnchanged
	}
	l.end(t, Event{State: state})
}

// fail ends t with err, and all that need it to succeed.
func (l *loop) fail(t *task, err error, message string) {
	t.err = err
	l.end(t, Event{State: StateFailed, Message: message, Error: err.Error(), Hint: HintOf(err)})
	l.block(t)
}

// end ends t.
func (l *loop) end(t *task, e Event) {
	l.enter(t, e)
	if t.cancel != nil {
		t.cancel()
	}
}

// timedOut joins the cause that ended a step's context with what the action
// said last, unless that is the same.
func timedOut(cause, err error) error {
	var late *abandonedError
	switch {
	case err == nil, err == context.Canceled, err == context.DeadlineExceeded: //nolint:errorlint // bare ones say nothing
		return cause
	case errors.Is(err, cause), errors.As(err, &late):
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// oneLine joins the lines of a joined error.
func oneLine(err error) string {
	lines := slices.DeleteFunc(strings.Split(err.Error(), "\n"), func(s string) bool { return s == "" })
	return strings.Join(lines, "; ")
}
