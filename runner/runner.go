// Package runner runs a plan: it schedules steps side by side as their needs
// allow, bounds and retries them, and tells what happens as a stream of
// numbered events, whose fold is an Execution.
//
// It does not know what a step does (a Resolver makes its Action), does not
// read plan files, does not draw, and knows nothing of Kubernetes or Helm.
package runner

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kplan-dev/kplan/plan"
)

const (
	// DefaultParallel is how many steps run at once when Runner.Parallel is 0.
	DefaultParallel = 8
	// DefaultGrace is how long an action may take to stop when Runner.Grace is 0.
	DefaultGrace = time.Minute
	// inboxSize is how many reports wait for the loop before Report does.
	inboxSize = 256
)

// Runner runs plans. Its fields are read when Run starts.
type Runner struct {
	// About says for people what the plan is run on, e.g. which cluster; it is
	// the message of the first event.
	About string
	// Resolve makes the action of each step.
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
	// Guards finds which webhooks of the plan intercept which steps' objects, to
	// be told while the steps run; nil tells nothing. It is called once, in a
	// goroutine of its own, and must return soon after its context ends.
	Guards func(context.Context) []Guard
	// Abort, when closed, makes Run return at once, whatever still runs. Whoever
	// makes it closes it; nil means never.
	Abort <-chan struct{}
}

// Run runs p and returns what happened. p must have been validated.
//
// The error holds one *StepError for each failed step in plan order, and
// first of all context.Cause(ctx) when the run was stopped before every step
// was done.
// When ctx ends no step starts any more and the contexts of running actions
// end too, with the same cause; Run then waits for these actions, each for at
// most Grace.
func (r *Runner) Run(ctx context.Context, p *plan.Plan) (*Execution, error) {
	l, err := newLoop(r, p)
	if err != nil {
		return nil, err
	}
	// Nobody reads the inbox any more: senders that are left must not hang.
	defer close(l.gone)
	l.announce(p, r.About)
	if l.resolve(r.Resolve) {
		defer l.look(ctx, r.Guards)()
		l.run(ctx)
	}
	return l.finish()
}

// look begins to look for guards, and gives the function that ends it and, unless
// the run was aborted, waits for that.
func (l *loop) look(ctx context.Context, find func(context.Context) []Guard) (end func()) {
	if find == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case l.inbox <- message{news: newsGuards, guards: find(ctx)}:
		case <-ctx.Done():
		}
	}()
	return func() {
		cancel(errRunOver)
		select {
		case <-over:
		case <-l.abort:
		}
	}
}

var errRunOver = errors.New("the run is over")

// loop is one run. Only the goroutine of Run touches it, with the exception of
// inbox, gone and grace, which the goroutines of attempts use.
type loop struct {
	start     time.Time
	exec      *Execution
	observers []Observer

	tasks   []*task
	ready   queue // tasks that may start, by place in the plan
	slots   int   // how many more may run at once
	running int   // actions at work
	waiting int   // tasks in retrying whose delay is not over

	// inbox is written by actions and attempts, read by the loop, never closed.
	inbox chan message
	// gone is closed by Run when it returns; it releases writers of inbox.
	gone  chan struct{}
	abort <-chan struct{}
	grace time.Duration

	stopped error // why the run was stopped; nil while it goes on
}

// task is a step while it runs.
type task struct {
	index      int
	step       plan.Step
	action     Action
	timeout    time.Duration
	attempts   int
	delay      time.Duration
	needs      int // how many are not done yet
	dependents []*task

	// ctx spans all attempts, from the first start to the end: its deadline is
	// the step's timeout. It is kept here because delays lie between attempts.
	ctx       context.Context
	cancel    context.CancelFunc
	attempt   int // counts from 1
	active    bool
	unchanged bool
	lastErr   error // of the attempt before
	err       error // why the step failed
}

func newLoop(r *Runner, p *plan.Plan) (*loop, error) {
	l := &loop{
		start:     time.Now(),
		exec:      &Execution{},
		observers: r.Observers,
		slots:     cmp.Or(max(r.Parallel, 0), DefaultParallel),
		inbox:     make(chan message, inboxSize),
		gone:      make(chan struct{}),
		abort:     r.Abort,
		grace:     cmp.Or(max(r.Grace, 0), DefaultGrace),
	}
	byName := make(map[string]*task, len(p.Steps))
	for i, s := range p.Steps {
		if byName[s.Name] != nil {
			return nil, fmt.Errorf("two steps are called %q", s.Name)
		}
		retry := p.StepRetry(s)
		t := &task{
			index: i, step: s,
			timeout:  p.StepTimeout(s),
			attempts: max(retry.InstallRetries, 1),
			delay:    time.Duration(retry.RetryDelaySeconds * float64(time.Second)),
		}
		byName[s.Name] = t
		l.tasks = append(l.tasks, t)
	}
	for _, t := range l.tasks {
		needs := slices.Compact(slices.Sorted(slices.Values(t.step.Needs)))
		t.needs = len(needs)
		for _, name := range needs {
			if need := byName[name]; need != nil {
				need.dependents = append(need.dependents, t)
			}
		}
	}
	return l, nil
}

// announce emits the first event, which lists all steps.
func (l *loop) announce(p *plan.Plan, about string) {
	infos := make([]StepInfo, len(l.tasks))
	for i, t := range l.tasks {
		infos[i] = StepInfo{
			Name: t.step.Name, Kind: string(t.step.Kind()), Needs: t.step.Needs,
			TimeoutSeconds: t.timeout.Seconds(),
		}
	}
	l.emit(Event{Type: TypePlan, Version: EventVersion, Plan: p.Metadata.Name, Message: about, Steps: infos})
}

// resolve makes every action before the first one starts. It reports whether
// all could be made; if not, nothing runs.
func (l *loop) resolve(resolve Resolver) bool {
	ok := true
	for _, t := range l.tasks {
		if t.action, t.err = resolve(t.step); t.err != nil {
			ok = false
		}
	}
	if ok {
		return true
	}
	for _, t := range l.tasks {
		if t.err != nil {
			l.fail(t, t.err)
		}
	}
	for _, t := range l.tasks {
		if !l.state(t).Terminal() {
			l.enter(t, Event{State: StateCancelled, Message: "not started: a step of the plan cannot run"})
		}
	}
	return false
}

// run is the loop: it starts what is ready, then waits for the next message.
func (l *loop) run(ctx context.Context) {
	for _, t := range l.tasks {
		if t.needs == 0 {
			heap.Push(&l.ready, t)
		}
	}
	done := ctx.Done()
	for {
		l.notice(ctx)
		for l.stopped == nil && l.running < l.slots && l.ready.Len() > 0 {
			l.begin(ctx, heap.Pop(&l.ready).(*task))
		}
		if l.running == 0 && l.waiting == 0 {
			l.unstick()
			return
		}
		select {
		case m := <-l.inbox:
			l.notice(ctx) // an action that ended because ctx did must find the run stopped
			l.handle(m)
		case <-done:
			done = nil // seen: the next turn notices it
		case <-l.abort:
			l.abandon()
			return
		}
	}
}

// notice stops the run when ctx has ended: what did not start never will.
func (l *loop) notice(ctx context.Context) {
	if l.stopped != nil || context.Cause(ctx) == nil {
		return
	}
	l.stopped = context.Cause(ctx)
	l.emit(Event{Type: TypeCancel, Error: l.stopped.Error()})
	l.ready, l.waiting = nil, 0
	for _, t := range l.tasks {
		switch s := l.state(t); {
		case s == StatePending:
			l.enter(t, Event{State: StateCancelled, Message: "not started"})
		case !s.Terminal() && !t.active:
			l.enter(t, Event{State: StateCancelled, Message: "stopped before its next attempt", Error: t.lastErr.Error()})
			t.cancel()
		}
	}
}

// abandon gives up every action that is still at work.
func (l *loop) abandon() {
	l.stopped = errors.Join(l.stopped, ErrAborted)
	for _, t := range l.tasks {
		if l.state(t).Terminal() {
			continue
		}
		msg := "not started"
		if t.active {
			msg = "aborted at work"
		}
		l.enter(t, Event{State: StateCancelled, Message: msg})
		if t.cancel != nil {
			t.cancel()
		}
	}
}

// unstick ends steps that can never start. A validated plan has none.
func (l *loop) unstick() {
	for _, t := range l.tasks {
		if !l.state(t).Terminal() {
			l.stopped = ErrStuck
			l.enter(t, Event{State: StateBlocked, Message: "its needs form a cycle or do not exist"})
		}
	}
}

// finish emits the last event and gathers the error.
func (l *loop) finish() (*Execution, error) {
	if l.allGood() {
		l.stopped = nil // the stop came too late to stop anything
	}
	errs := []error{l.stopped}
	for _, t := range l.tasks {
		if t.err != nil {
			errs = append(errs, &StepError{Step: t.step.Name, Err: t.err})
		}
	}
	last := Event{Type: TypeDone, State: StateSucceeded, Counts: l.exec.Counts()}
	err := errors.Join(errs...)
	switch {
	case errors.Is(l.stopped, ErrStuck):
		last.State, last.Error = StateFailed, l.stopped.Error()
	case l.stopped != nil:
		last.State, last.Error = StateCancelled, oneLine(l.stopped)
	case err != nil:
		last.State = StateFailed
	}
	l.emit(last)
	return l.exec, err
}

func (l *loop) allGood() bool {
	return !slices.ContainsFunc(l.tasks, func(t *task) bool { return !l.state(t).Good() })
}

func (l *loop) state(t *task) State { return l.exec.steps[t.index].State }

// enter emits that t entered e.State.
func (l *loop) enter(t *task, e Event) {
	e.Type, e.Step = TypeState, t.step.Name
	if t.attempt > 0 {
		e.Attempt, e.Attempts = t.attempt, t.attempts
	}
	l.emit(e)
}

// emit numbers e, folds it and shows it to the observers. Its time never goes
// back, also when the machine's clock does.
func (l *loop) emit(e Event) {
	e.Seq = l.exec.seq + 1
	e.Time = l.start.Add(time.Since(l.start)).Round(0).UTC()
	l.exec.Apply(e)
	for _, o := range l.observers {
		o.Observe(e)
	}
}

// queue is a heap of tasks by place in the plan.
type queue []*task

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].index < q[j].index }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(*task)) }
func (q *queue) Pop() any {
	old := *q
	t := old[len(old)-1]
	*q = old[:len(old)-1]
	return t
}
