package runner

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/kplan-dev/kplan/plan"
)

// executor makes the attempts of steps, each in goroutines of its own, and tells the
// loop of them. Its fields do not change during a run: any goroutine may use it.
type executor struct {
	// inbox is written by the goroutines of attempts, read by the loop, never closed.
	inbox chan message
	// over is closed by Run when it returns; it releases writers of inbox.
	over       chan struct{}
	grace      time.Duration
	resolve    Resolver
	readInputs func(context.Context, []plan.Input) (plan.Inputs, error) // may be nil
}

// message tells the loop of an attempt.
type message struct {
	kind    messageKind
	task    *task
	attempt int
	report  Report  // with messageReport
	err     error   // with messageEnded
	guards  []Guard // with messageGuards, which has no task
	found   Found   // with messageFound, which has no task
}

type messageKind int

const (
	messageReport   messageKind = iota // the action reported something
	messageEnded                       // the action returned, or was given up
	messageBound                       // a deferred step has found what it is to do
	messageDue                         // the delay before the next attempt is over
	messagePrepared                    // something was done ahead of time, with a report and no task
	messageGuards                      // it was found which webhooks of the plan intercept what
	messageFound                       // something was found that may keep steps from their work
)

// send delivers m, unless the run is over.
func (x *executor) send(m message) {
	select {
	case x.inbox <- m:
	case <-x.over:
	}
}

// run makes one attempt and tells the loop how it ended. It ends with the action,
// the grace after ctx, or with the run when that is aborted.
func (x *executor) run(ctx context.Context, t *task, attempt int, action Action) {
	done := make(chan error, 1) // room for one, so that an abandoned action can end
	go func() { runAction(ctx, action, reporter{x, t, attempt}, done) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		timer := time.NewTimer(x.grace)
		defer timer.Stop()
		select {
		case err = <-done:
		case <-x.over:
		case <-timer.C:
			err = &abandonedError{cause: context.Cause(ctx), grace: x.grace}
		}
	}
	x.send(message{kind: messageEnded, task: t, attempt: attempt, err: err})
}

// runAction runs a and sends exactly one result, also when a panics or ends its
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
	executor *executor
	task     *task
	attempt  int
}

var _ Reporter = reporter{}

// Report implements Reporter.
func (r reporter) Report(rep Report) {
	r.executor.send(message{kind: messageReport, task: r.task, attempt: r.attempt, report: rep})
}

// awaitDelay tells the loop when the delay is over, wake is ready or ctx ended.
func (x *executor) awaitDelay(ctx context.Context, t *task, attempt int, delay time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
	x.send(message{kind: messageDue, task: t, attempt: attempt})
}

var errRunOver = errors.New("the run is over")

// findGuards begins to look for guards, and returns the function that ends it and,
// unless the run was aborted, waits for that.
func (x *executor) findGuards(ctx context.Context, find func(context.Context) []Guard, abort <-chan struct{}) (end func()) {
	if find == nil {
		return func() {}
	}
	return x.beside(ctx, abort, func(ctx context.Context) {
		guards := find(ctx)
		select {
		case x.inbox <- message{kind: messageGuards, guards: guards}:
		case <-ctx.Done():
		}
	})
}

// prepare begins what is done ahead of time, as findGuards does.
func (x *executor) prepare(ctx context.Context, f func(context.Context, Reporter), abort <-chan struct{}) (end func()) {
	if f == nil {
		return func() {}
	}
	return x.beside(ctx, abort, func(ctx context.Context) { f(ctx, aheadReporter{x, ctx}) })
}

// look begins to look for what may keep steps from their work, as findGuards does.
func (x *executor) look(ctx context.Context, f func(context.Context, func(Found)), abort <-chan struct{}) (end func()) {
	if f == nil {
		return func() {}
	}
	return x.beside(ctx, abort, func(ctx context.Context) {
		f(ctx, func(found Found) {
			select {
			case x.inbox <- message{kind: messageFound, found: found}:
			case <-ctx.Done():
			}
		})
	})
}

// aheadReporter hands over what is told of no attempt.
type aheadReporter struct {
	executor *executor
	ctx      context.Context
}

var _ Reporter = aheadReporter{}

// Report implements Reporter.
func (r aheadReporter) Report(rep Report) {
	select {
	case r.executor.inbox <- message{kind: messagePrepared, report: rep}:
	case <-r.ctx.Done():
	}
}

// beside does something in a goroutine of its own while the run goes on.
func (x *executor) beside(ctx context.Context, abort <-chan struct{}, f func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f(ctx)
	}()
	return func() {
		cancel(errRunOver)
		select {
		case <-ended:
		case <-abort:
		}
	}
}
