package runner

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// message is what the loop's inbox takes: a report, or news of an attempt.
type message struct {
	task    *task
	attempt int
	news    news
	report  Report  // with newsReport
	err     error   // with newsEnded
	guards  []Guard // with newsGuards, which has no task
}

type news int

const (
	newsReport news = iota // the action reported something
	newsEnded              // the action returned, or was given up
	newsDue                // the delay before the next attempt is over
	newsGuards             // it was found which webhooks of the plan intercept what
)

// send delivers m, unless the run is over.
func (l *loop) send(m message) {
	select {
	case l.inbox <- m:
	case <-l.gone:
	}
}

// begin starts the next attempt of t.
func (l *loop) begin(ctx context.Context, t *task) {
	if t.ctx == nil {
		t.ctx, t.cancel = context.WithTimeoutCause(ctx, t.timeout, &TimeoutError{After: t.timeout})
	} else if cause := context.Cause(t.ctx); cause != nil {
		l.fail(t, timedOut(cause, t.lastErr)) // while it waited for a slot
		return
	}
	t.attempt++
	t.active, t.unchanged = true, false
	l.running++
	l.enter(t, Event{State: StateRunning})
	go l.work(t.ctx, t, t.attempt)
}

// work makes one attempt and tells the loop how it ended. It ends with the
// action, l.grace after ctx, or with the run when that is aborted.
func (l *loop) work(ctx context.Context, t *task, attempt int) {
	done := make(chan error, 1) // room for one, so that an abandoned action can end
	go func() { guard(ctx, t.action, reporter{l, t, attempt}, done) }()
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
			err = &lateError{cause: context.Cause(ctx), grace: l.grace}
		}
	}
	l.send(message{task: t, attempt: attempt, news: newsEnded, err: err})
}

// guard runs a and sends exactly one result, also when a panics or ends its
// goroutine.
func guard(ctx context.Context, a Action, r Reporter, done chan<- error) {
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
	r.loop.send(message{task: r.task, attempt: r.attempt, news: newsReport, report: rep})
}

// handle takes one message. Those of an attempt that is over are dropped.
func (l *loop) handle(m message) {
	t := m.task
	switch {
	case m.news == newsGuards:
		if len(m.guards) > 0 {
			l.emit(Event{Type: TypeGuards, Guards: m.guards})
		}
	case m.attempt != t.attempt:
	case m.news == newsReport && t.active:
		l.report(t, m.report)
	case m.news == newsEnded && t.active:
		t.active = false
		l.running--
		l.ended(t, m.err)
	case m.news == newsDue && l.state(t) == StateRetrying:
		l.waiting--
		if cause := context.Cause(t.ctx); cause != nil {
			l.fail(t, timedOut(cause, t.lastErr))
			return
		}
		heap.Push(&l.ready, t)
	}
}

// report turns a report into an event, and tells when the step begins or ends
// to hold requests.
func (l *loop) report(t *task, r Report) {
	switch r.Type {
	case TypeProgress, TypeHeld, TypeReleased, TypeWebhook, TypeLog, TypeResult:
	default: // only the loop may say that a state changed or the run ended
		r.Type = TypeLog
	}
	if r.Type == TypeResult {
		t.unchanged = r.Unchanged
	}
	l.emit(Event{
		Type: r.Type, Step: t.step.Name, Message: r.Message, Object: r.Object,
		Done: r.Done, Total: r.Total, Revision: r.Revision, Webhook: r.Webhook, Error: r.Error,
	})
	switch held, state := l.exec.steps[t.index].Held(), l.state(t); {
	case held > 0 && state == StateRunning:
		l.enter(t, Event{State: StateHolding})
	case held == 0 && state == StateHolding:
		l.enter(t, Event{State: StateRunning})
	}
}

// ended decides what becomes of t, whose action returned err.
func (l *loop) ended(t *task, err error) {
	var p *panicError
	if errors.As(err, &p) && p.stack != "" {
		l.emit(Event{Type: TypeLog, Step: t.step.Name, Message: p.stack})
	}
	cause := context.Cause(t.ctx)
	switch {
	case err == nil:
		l.succeed(t)
	case l.stopped != nil:
		e := Event{State: StateCancelled, Message: "stopped at work", Hint: HintOf(err)}
		if err != l.stopped { //nolint:errorlint // an error that wraps it has more to say
			e.Error = err.Error()
		}
		l.enter(t, e)
		t.cancel()
	case cause != nil:
		l.fail(t, timedOut(cause, err))
	case p != nil || IsPermanent(err) || t.attempt >= t.attempts:
		l.fail(t, err)
	default:
		l.retry(t, err)
	}
}

func (l *loop) succeed(t *task) {
	state := StateSucceeded
	if t.unchanged {
		state = StateUnchanged
	}
	l.enter(t, Event{State: state})
	t.cancel()
	for _, d := range t.dependents {
		if d.needs--; d.needs == 0 && l.stopped == nil {
			heap.Push(&l.ready, d)
		}
	}
}

// fail ends t with err and blocks all that need it, directly or not.
func (l *loop) fail(t *task, err error) {
	t.err = err
	l.enter(t, Event{State: StateFailed, Error: err.Error(), Hint: HintOf(err)})
	if t.cancel != nil {
		t.cancel()
	}
	blocked := map[*task]bool{}
	for todo := t.dependents; len(todo) > 0; {
		var next []*task
		for _, d := range todo {
			if l.state(d) == StatePending && !blocked[d] {
				blocked[d] = true
				next = append(next, d.dependents...)
			}
		}
		todo = next
	}
	for _, d := range l.tasks {
		if blocked[d] {
			l.enter(d, Event{State: StateBlocked, Message: fmt.Sprintf("step %q failed", t.step.Name)})
		}
	}
}

// retry lets t wait for its next attempt. It gives up its slot meanwhile.
func (l *loop) retry(t *task, err error) {
	t.lastErr = err
	l.waiting++
	l.enter(t, Event{State: StateRetrying, Error: err.Error(), Hint: HintOf(err), DelaySeconds: t.delay.Seconds()})
	var wake <-chan struct{}
	var w waker
	if errors.As(err, &w) {
		wake = w.Wake()
	}
	go l.rest(t.ctx, t, t.attempt, t.delay, wake)
}

// rest sends newsDue when the delay is over, wake is ready or ctx ended.
func (l *loop) rest(ctx context.Context, t *task, attempt int, delay time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
	l.send(message{task: t, attempt: attempt, news: newsDue})
}

// timedOut joins the cause that ended a step's context with what the action
// said last, unless that is the same.
func timedOut(cause, err error) error {
	var late *lateError
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
