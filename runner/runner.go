// Package runner runs a plan: it schedules steps side by side as their needs
// allow, bounds and retries them, and tells what happens as a stream of numbered
// events, whose fold is an [Execution].
//
// One goroutine, that of [Runner.Run], owns the state of a run. Actions work in
// goroutines of their own and reach it by messages.
//
// The package does not know what a step does (a [Resolver] makes its [Action]),
// does not read plan files, does not draw, and knows nothing of Kubernetes or Helm.
package runner

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/kplan-dev/kplan/plan"
)

const (
	// DefaultParallel is how many steps run at once when Runner.Parallel is 0.
	DefaultParallel = 8
	// DefaultGrace is how long an action may take to stop when Runner.Grace is 0.
	DefaultGrace = time.Minute
	// inboxSize is how many messages wait for the loop before a sender waits.
	inboxSize = 256
)

// Runner runs plans. Its fields are read when Run starts.
type Runner struct {
	// ID names the run in the first event; it may be empty.
	ID string
	// By says who runs it, and Program what, both in the first event; they may be empty.
	By, Program string
	// About says for people what the plan is run on, e.g. which cluster. It is the
	// message of the first event.
	About string
	// Resolve makes the action of each step that runs.
	Resolve Resolver
	// Parallel is how many steps run at once (default DefaultParallel). A step
	// that waits for its next attempt does not count.
	Parallel int
	// Grace is how long an action may go on once its context ended, by the
	// step's timeout or because the run was stopped (default DefaultGrace).
	// After it the step is given up while its goroutine may still run.
	Grace time.Duration
	// Observers see every event, in this order, from the goroutine of Run.
	Observers []Observer
	// ReadInputs reads what deferred steps need from clusters: inputs without a
	// Step. It is called for each attempt of such a step, from the goroutine of the
	// attempt, by several at once, and must return soon after its context ends. An
	// input that it does not return is missing, which the plan may allow.
	ReadInputs func(context.Context, []plan.Input) (plan.Inputs, error)
	// Redact returns a text without what must not be shown. It is called from the
	// goroutine of Run with all texts of events and errors but the names of steps.
	// Nil hides nothing.
	Redact func(string) string
	// Guards finds which webhooks of the plan intercept which steps' objects, to
	// be told while the steps run. It is called once, in a goroutine of its own, and
	// must return soon after its context ends. Nil tells nothing.
	Guards func(context.Context) []Guard
	// Prepare does ahead of time what several steps need, such as fetching charts, and
	// reports how far it is. It is called once, in a goroutine of its own, and must return
	// soon after its context ends. What it cannot do its steps do. Nil does nothing.
	Prepare func(context.Context, Reporter)
	// Findings were found before the run, and are told as it begins.
	Findings []Found
	// Look looks for what may keep steps from their work while the first ones begin, and
	// tells it. It is called once, in a goroutine of its own, and must return soon after
	// its context ends. Nil finds nothing.
	Look func(context.Context, func(Found))
	// Orders tells what to do with steps while the run goes on; nil means never.
	// Whoever makes it may close it. What comes after Run returned is not read.
	Orders <-chan Order
	// Linger makes a run whose steps failed wait for orders before its finally steps
	// and its end, until OrderEnd, ctx ends or Orders is closed.
	Linger bool
	// Abort, when closed, makes Run return at once, whatever still runs. Whoever
	// makes it closes it; nil means never.
	Abort <-chan struct{}
}

// Run runs p, which must have been validated, and returns what happened.
//
// The error holds one *StepError for each failed step in plan order, and first of
// all context.Cause(ctx) when the run was stopped before every step was done.
//
// When ctx ends no step starts any more and the contexts of running actions end
// too, with the same cause. Run then waits for these actions, each for at most
// Grace. The plan's finally steps are not stopped by that: they start when all
// others have ended, and only Abort ends them early. They do not start when the
// cause has a method Final that reports true: what stopped the run forbids them too.
func (r *Runner) Run(ctx context.Context, p *plan.Plan) (*Execution, error) {
	l, err := newLoop(r, p)
	if err != nil {
		return nil, err
	}
	// Nobody reads the inbox any more: senders that are left must not hang.
	defer close(l.executor.over)
	l.record.announce(p, r, l.sched.tasks)
	for _, f := range r.Findings {
		l.record.emit(f.event())
	}
	if l.resolve() {
		defer l.executor.findGuards(ctx, r.Guards, r.Abort)()
		defer l.executor.prepare(ctx, r.Prepare, r.Abort)()
		defer l.executor.look(ctx, r.Look, r.Abort)()
		l.run(ctx)
	}
	return l.finish()
}

// loop is one run. Only the goroutine of Run uses it; executor alone is shared
// with the goroutines of attempts.
type loop struct {
	sched    *schedule
	record   *recorder
	executor *executor

	abort  <-chan struct{}
	orders <-chan Order // nil once it was closed
	linger bool

	cause   error // why the run was told to stop; nil until then
	stopped error // the same if it was told before the finally steps, or why it was given up
}

func newLoop(r *Runner, p *plan.Plan) (*loop, error) {
	record := &recorder{start: time.Now(), exec: &Execution{}, observers: r.Observers, redact: r.Redact}
	sched, err := newSchedule(p, record, cmp.Or(max(r.Parallel, 0), DefaultParallel))
	if err != nil {
		return nil, err
	}
	return &loop{
		sched:  sched,
		record: record,
		executor: &executor{
			inbox: make(chan message, inboxSize), over: make(chan struct{}),
			grace: cmp.Or(max(r.Grace, 0), DefaultGrace), resolve: r.Resolve, readInputs: r.ReadInputs,
		},
		abort: r.Abort, orders: r.Orders, linger: r.Linger,
	}, nil
}

// resolve makes the actions of all steps that run, but for deferred ones, before
// the first one starts. It reports whether all could be made; if not, nothing runs.
func (l *loop) resolve() bool {
	ok := true
	for _, t := range l.sched.tasks {
		if !t.runs() || t.isDeferred() {
			continue
		}
		if t.action, t.err = l.executor.resolve(t.step); t.err != nil {
			ok = false
		}
	}
	if ok {
		return true
	}
	for _, t := range l.sched.tasks {
		if t.err != nil {
			l.fail(t, t.err, "")
		}
	}
	for _, t := range l.sched.tasks {
		if !l.record.state(t).Terminal() {
			l.record.enter(t, Event{State: StateCancelled, Message: "not started: a step of the plan cannot run"})
		}
	}
	return false
}

// run runs all steps but the plan's finally ones, then these, whatever became of
// the others. What ends ctx does not end them, unless its cause forbids them.
func (l *loop) run(ctx context.Context) {
	if l.runPhase(ctx, ctx, false) && !isFinal(l.cause) {
		l.runPhase(ctx, context.WithoutCancel(ctx), true)
	}
}

// runPhase runs the finally steps, or all others: it starts what is ready, in the
// context work, then waits for the next message. The run is stopped when stop ends.
// runPhase reports whether every step of the phase has ended; if not, the run was
// aborted.
func (l *loop) runPhase(stop, work context.Context, finally bool) bool {
	l.sched.open(finally)
	done := stop.Done()
	for {
		l.checkStopped(stop)
		for t := l.sched.next(); t != nil; t = l.sched.next() {
			l.startAttempt(work, t)
		}
		if l.sched.idle() && !l.lingers() {
			if l.sched.endStuck() {
				l.stopped = ErrStuck
			}
			return true
		}
		select {
		case m := <-l.executor.inbox:
			l.checkStopped(stop) // an action that ended because the context did must find the run stopped
			l.handle(m)
		case o, ok := <-l.orders:
			if !ok {
				l.orders = nil
				continue
			}
			l.checkStopped(stop)
			l.handleOrder(o)
		case <-done:
			done = nil // the next round sees it
		case <-l.abort:
			l.abandon()
			return false
		}
	}
}

// checkStopped stops the run if ctx has ended, unless its finally steps run: what
// did not start never will.
func (l *loop) checkStopped(ctx context.Context) {
	if l.cause != nil || context.Cause(ctx) == nil {
		return
	}
	l.cause = context.Cause(ctx)
	e := Event{Type: TypeCancel, Error: l.cause.Error()}
	if l.sched.hasFinally() && !isFinal(l.cause) {
		e.Message = "the finally steps run nevertheless"
	}
	l.record.emit(e)
	if l.sched.finally {
		return
	}
	l.stopped = l.cause
	l.sched.clear()
	for _, t := range l.sched.tasks {
		switch s := l.record.state(t); {
		case t.step.Last && !isFinal(l.cause) || t.active || s.Terminal():
		case s == StatePending:
			l.record.enter(t, Event{State: StateCancelled, Message: "not started"})
		default:
			l.record.enter(t, Event{State: StateCancelled, Message: "stopped before its next attempt", Error: t.lastErr.Error()})
			t.cancel()
			l.sched.endTurn(t)
		}
	}
}

// abandon gives up every action that is still at work.
func (l *loop) abandon() {
	l.stopped = errors.Join(l.cause, ErrAborted)
	for _, t := range l.sched.tasks {
		if l.record.state(t).Terminal() {
			continue
		}
		msg := "not started"
		if t.active {
			msg = "aborted at work"
		}
		l.record.enter(t, Event{State: StateCancelled, Message: msg})
		if t.cancel != nil {
			t.cancel()
		}
	}
}

// finish emits the last event and gathers the error.
func (l *loop) finish() (*Execution, error) {
	counts := l.record.exec.Counts()
	if !errors.Is(l.stopped, ErrStuck) && counts[StateCancelled] == 0 {
		l.stopped = nil // the stop came too late to stop anything
	}
	errs := []error{l.stopped}
	for _, t := range l.sched.tasks {
		if t.err != nil {
			errs = append(errs, &StepError{Step: t.step.Name, Err: redactError(l.record.redact, t.err)})
		}
	}
	last := Event{Type: TypeDone, State: StateSucceeded, Counts: counts}
	err := errors.Join(errs...)
	switch {
	case errors.Is(l.stopped, ErrStuck):
		last.State, last.Error = StateFailed, l.stopped.Error()
	case l.stopped != nil:
		last.State, last.Error = StateCancelled, oneLine(l.stopped)
	case err != nil:
		last.State = StateFailed
	}
	l.record.emit(last)
	return l.record.exec, err
}
