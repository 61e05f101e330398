package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cenkalti/backoff/v4"

	"github.com/kplan-dev/kplan/plan"
)

// startAttempt starts the next attempt of t.
func (l *loop) startAttempt(ctx context.Context, t *task) {
	if t.ctx == nil {
		t.ctx, t.cancel = context.WithTimeoutCause(ctx, t.timeout, &TimeoutError{After: t.timeout})
	} else if cause := context.Cause(t.ctx); cause != nil { // while it waited for a slot
		l.fail(t, timedOut(cause, t.lastErr), "")
		l.sched.unpark(t.group)
		return
	}
	t.attempt++
	t.unchanged, t.delayOver, t.skipped, t.outputs = false, false, false, nil
	l.sched.takeSlot(t)
	action := t.action
	if t.isDeferred() {
		action = &deferredAction{l.executor, t, t.attempt, l.sched.inputs(t)}
	}
	if !t.isDeferred() || len(t.clusterInputs()) > 0 { // else it is told at once whether the step runs
		l.record.enter(t, Event{State: StateRunning})
	}
	go l.executor.run(t.ctx, t, t.attempt, action) // ends with the attempt
}

// handle takes one message. Those of an attempt that is over are dropped.
func (l *loop) handle(m message) {
	t := m.task
	switch {
	case m.kind == messageGuards:
		if len(m.guards) > 0 {
			l.record.emit(Event{Type: TypeGuards, Guards: l.markLate(m.guards)})
		}
	case m.kind == messagePrepared:
		l.record.emit(Event{Type: TypeFetch, Message: m.report.Message, Error: m.report.Error, Done: m.report.Done, Total: m.report.Total})
	case m.kind == messageFound:
		l.record.emit(m.found.event())
	case m.attempt != t.attempt:
	case m.kind == messageReport && t.active:
		l.report(t, m.report)
	case m.kind == messageBound && t.active:
		l.show(t)
	case m.kind == messageEnded && t.active:
		l.sched.freeSlot(t)
		l.attemptEnded(t, m.err)
	case m.kind == messageDue && l.record.state(t) == StateRetrying && !t.delayOver:
		if cause := context.Cause(t.ctx); cause != nil {
			l.sched.remove(t)
			l.fail(t, timedOut(cause, t.lastErr), "")
			return
		}
		l.sched.endDelay(t)
	}
}

// markLate marks the guards of steps that have begun to send.
func (l *loop) markLate(guards []Guard) []Guard {
	guards = slices.Clone(guards)
	for i, g := range guards {
		if s := l.record.exec.Step(g.Step); s != nil && (s.State.Terminal() || s.Attempt > 1 || len(s.Holds) > 0) {
			guards[i].Late = true
		}
	}
	return guards
}

// show reports that t is at work, where that was not told when its attempt began.
func (l *loop) show(t *task) {
	if !l.record.state(t).Active() {
		l.record.enter(t, Event{State: StateRunning})
	}
}

// report turns a report into an event, and tells when the step begins or ends
// to hold requests.
func (l *loop) report(t *task, r Report) {
	e := Event{
		Type: r.Type, Step: t.step.Name, Message: r.Message, Object: r.Object, Of: r.Of,
		Done: r.Done, Total: r.Total, Revision: r.Revision, Webhook: r.Webhook, Hook: r.Hook, Error: r.Error,
		Objects: r.Objects, Release: r.Release, Digest: r.Digest,
	}
	switch r.Type {
	case TypeProgress, TypeHeld, TypeReleased, TypeWebhook, TypeHook, TypeLog:
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
	l.record.emit(e)
	switch s := l.record.step(t); {
	case s.Held() > 0 && s.State == StateRunning:
		l.record.enter(t, Event{State: StateHolding})
	case s.Held() == 0 && s.State == StateHolding:
		l.record.enter(t, Event{State: StateRunning})
	}
}

// attemptEnded decides what becomes of t, whose action returned err: it ends, or
// waits for another attempt.
func (l *loop) attemptEnded(t *task, err error) {
	if skip, ok := err.(*skipError); ok { //nolint:errorlint // only the runner makes it
		t.attempt = 0
		l.end(t, Event{State: StateSkipped, Message: skip.why})
		return
	}
	l.show(t)
	var p *panicError
	if errors.As(err, &p) && p.stack != "" {
		l.record.emit(Event{Type: TypeLog, Step: t.step.Name, Message: p.stack})
	}
	cause := context.Cause(t.ctx)
	switch {
	case err == nil && t.unchanged:
		l.end(t, Event{State: StateUnchanged})
	case err == nil:
		l.end(t, Event{State: StateSucceeded})
	case t.skipped && l.stopped == nil:
		l.end(t, Event{State: StateSkipped, Message: "skipped " + byHand})
	case l.stopped != nil && !t.step.Last:
		e := Event{State: StateCancelled, Message: "stopped at work", Hint: HintOf(err)}
		if err != l.stopped { //nolint:errorlint // an error that wraps it has more to say
			e.Error = err.Error()
		}
		l.end(t, e)
	case cause != nil:
		l.fail(t, timedOut(cause, err), "")
	case p != nil || t.attempt >= t.attempts:
		l.fail(t, err, "")
	default:
		if again, why := retries(t.retry.On, err); !again {
			l.fail(t, err, why)
			return
		}
		l.retryLater(t, err)
	}
}

// retryLater makes t wait for its next attempt.
func (l *loop) retryLater(t *task, err error) {
	t.lastErr = err
	l.sched.waiting++
	if t.delays == nil {
		t.delays = delays(t.retry)
	}
	delay := t.delays.NextBackOff()
	l.record.enter(t, Event{State: StateRetrying, Error: err.Error(), Hint: HintOf(err), DelaySeconds: delay.Seconds()})
	var wake <-chan struct{}
	var waker interface{ Wake() <-chan struct{} } // see Action
	if errors.As(err, &waker) {
		wake = waker.Wake()
	}
	go l.executor.awaitDelay(t.ctx, t, t.attempt, delay, wake) // ends with t.ctx at the latest
}

// fail ends t with err, and all that need it to succeed.
func (l *loop) fail(t *task, err error, message string) {
	t.err = err
	l.end(t, Event{State: StateFailed, Message: message, Error: err.Error(), Hint: HintOf(err)})
}

// end ends t in e.State, and lets those that need it go on.
func (l *loop) end(t *task, e Event) {
	l.record.enter(t, e)
	if t.cancel != nil {
		t.cancel()
	}
	if e.State == StateFailed {
		l.sched.block(t)
	}
	l.sched.propagate(t)
	l.sched.endTurn(t)
}

// timedOut joins the cause that ended a step's context with what the action
// said last, unless that is the same.
func timedOut(cause, err error) error {
	var abandoned *abandonedError
	switch {
	case err == nil, err == context.Canceled, err == context.DeadlineExceeded: //nolint:errorlint // bare ones say nothing
		return cause
	case errors.Is(err, cause), errors.As(err, &abandoned):
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// oneLine joins the lines of a joined error.
func oneLine(err error) string {
	lines := slices.DeleteFunc(strings.Split(err.Error(), "\n"), func(s string) bool { return s == "" })
	return strings.Join(lines, "; ")
}

// ClassesOf returns the kinds of failure of the outermost error in err's chain that
// knows any; nil without.
func ClassesOf(err error) []plan.RetryOn {
	var classer interface{ Classes() []plan.RetryOn }
	if errors.As(err, &classer) {
		return classer.Classes()
	}
	return nil
}

// retries reports whether a plan wants another attempt after err, and if not, why.
// A failure that another attempt cannot mend is tried again only when the plan
// names its kind: whoever owns a field of an object may let go of it.
func retries(on []plan.RetryOn, err error) (again bool, why string) {
	classes := ClassesOf(err)
	if slices.ContainsFunc(classes, func(c plan.RetryOn) bool { return slices.Contains(on, c) }) {
		return true, ""
	}
	if IsPermanent(err) || len(on) == 0 || slices.Contains(on, plan.RetryAny) {
		return !IsPermanent(err), ""
	}
	names := make([]string, len(on))
	for i, c := range on {
		names[i] = string(c)
	}
	return false, fmt.Sprintf("not retried: retry.on is [%s]", strings.Join(names, ", "))
}

// delays returns the times between attempts. Each is at most that of the plan, and
// shorter by a random part of up to the jitter of it: ExponentialBackOff, which
// randomizes in both directions, is given the middle of that span.
func delays(r plan.Retry) *backoff.ExponentialBackOff {
	delay, jitter := *r.RetryDelaySeconds, *r.Jitter // plan.StepRetry sets all
	longest := max(delay, r.MaxDelaySeconds)
	middle := 1 - jitter/2
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(seconds(delay*middle)),
		backoff.WithMaxInterval(seconds(longest*middle)),
		backoff.WithMultiplier(max(r.Multiplier, 1)),
		backoff.WithRandomizationFactor(jitter/2/middle),
		backoff.WithMaxElapsedTime(0), // attempts are counted, and the step has a timeout
	)
}
