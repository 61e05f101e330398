// Package runner runs a plan: it schedules steps side by side as their needs
// allow, bounds and retries them, and tells what happens as a stream of
// numbered events, whose fold is an Execution.
//
// It does not know what a step does (a Resolver makes its Action), does not
// read plan files, does not draw, and knows nothing of Kubernetes or Helm.
package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

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
	// ReadInputs reads what late steps ask clusters for (plan.Input without Step). It is
	// called for each attempt of a step, in the goroutine of that, by several at
	// once, and must return soon after its context ends. An ask that it does not
	// answer is the plan's to miss.
	ReadInputs func(context.Context, []plan.Input) (plan.Inputs, error)
	// Redact takes out of a text what must not be shown. All texts of events and
	// errors go through it, names of steps excepted; nil hides nothing. It is
	// called from the goroutine of Run.
	Redact func(string) string
	// Guards finds which webhooks of the plan intercept which steps' objects, to
	// be told while the steps run; nil tells nothing. It is called once, in a
	// goroutine of its own, and must return soon after its context ends.
	Guards func(context.Context) []Guard
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

// Run runs p and returns what happened. p must have been validated.
//
// The error holds one *StepError for each failed step in plan order, and
// first of all context.Cause(ctx) when the run was stopped before every step
// was done.
// When ctx ends no step starts any more and the contexts of running actions
// end too, with the same cause; Run then waits for these actions, each for at
// most Grace. The plan's finally steps are not stopped by that: they start when
// all others have ended, and only Abort ends them early.
func (r *Runner) Run(ctx context.Context, p *plan.Plan) (*Execution, error) {
	l, err := newLoop(r, p)
	if err != nil {
		return nil, err
	}
	// Nobody reads the inbox any more: senders that are left must not hang.
	defer close(l.gone)
	l.announce(p, r.About)
	if l.resolve() {
		defer l.findGuards(ctx, r.Guards)()
		l.run(ctx)
	}
	return l.finish()
}

// look begins to look for guards, and gives the function that ends it and, unless
// the run was aborted, waits for that.
func (l *loop) findGuards(ctx context.Context, find func(context.Context) []Guard) (end func()) {
	if find == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case l.inbox <- message{kind: messageGuards, guards: find(ctx)}:
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
// inbox, gone, grace, resolver and inquire, which the goroutines of attempts use.
type loop struct {
	start      time.Time
	exec       *Execution
	observers  []Observer
	redact     func(string) string
	resolver   Resolver
	readInputs func(context.Context, []plan.Input) (plan.Inputs, error)

	tasks   []*task
	byName  map[string]*task
	ready   queue // tasks that may start, by place in the plan
	slots   int   // how many may run at once
	running int   // actions at work
	waiting int   // tasks in retrying whose delay is not over
	last    bool  // the plan's finally steps have their turn

	// inbox is written by actions and attempts, read by the loop, never closed.
	inbox chan message
	// gone is closed by Run when it returns; it releases writers of inbox.
	gone   chan struct{}
	abort  <-chan struct{}
	orders <-chan Order
	linger bool
	grace  time.Duration

	cause   error // why the run was told to stop; nil until then
	stopped error // the same if it was told before the finally steps, or why it was given up
}

// task is a step while it runs.
type task struct {
	index    int
	step     plan.Step
	action   Action // nil for a step that is late, or does not run
	timeout  time.Duration
	attempts int
	asks     []plan.Input // of a late step
	retry    plan.Retry
	delays   *backoff.ExponentialBackOff // nil before the first delay
	group    *group                      // nil without a bound of its own

	needs      []edge
	dependents []edge
	missing    int  // how many needs have not ended
	willBlock  bool // it is to be blocked

	// ctx spans all attempts, from the first start to the end: its deadline is
	// the step's timeout. It is kept here because delays lie between attempts.
	ctx       context.Context
	cancel    context.CancelFunc
	attempt   int // counts from 1
	active    bool
	delayOver bool // its delay is over, and it waits for a slot
	skipped   bool // its attempt ends because of an order
	unchanged bool
	outputs   map[string]any // of the latest attempt
	lastErr   error          // of the attempt before
	err       error          // why the step failed
}

// edge leads to a task that is needed, or to one that needs, and says how the
// needed one must have ended.
type edge struct {
	task *task // nil when there is none of that name
	on   plan.NeedOn
}

// runs tells whether the step is to run as far as the plan itself says.
func (t *task) runs() bool { return t.step.Skip == "" && t.step.When != false }

// isLate tells whether the step has no action before it starts.
func (t *task) isDeferred() bool { return len(t.asks) > 0 }

func newLoop(r *Runner, p *plan.Plan) (*loop, error) {
	l := &loop{
		start:      time.Now(),
		exec:       &Execution{},
		observers:  r.Observers,
		redact:     r.Redact,
		resolver:   r.Resolve,
		readInputs: r.ReadInputs,
		slots:      cmp.Or(max(r.Parallel, 0), DefaultParallel),
		inbox:      make(chan message, inboxSize),
		gone:       make(chan struct{}),
		abort:      r.Abort,
		orders:     r.Orders,
		linger:     r.Linger,
		grace:      cmp.Or(max(r.Grace, 0), DefaultGrace),
		byName:     make(map[string]*task, len(p.Steps)),
	}
	groups := map[string]*group{}
	for i, s := range p.Steps {
		if l.byName[s.Name] != nil {
			return nil, fmt.Errorf("two steps are called %q", s.Name)
		}
		retry := p.StepRetry(s)
		t := &task{
			index: i, step: s, asks: s.Deferred(), timeout: p.StepTimeout(s),
			retry: retry, attempts: max(retry.InstallRetries, 1),
		}
		if s.Group != "" && s.Parallel > 0 {
			if groups[s.Group] == nil {
				groups[s.Group] = &group{limit: s.Parallel}
			}
			t.group = groups[s.Group]
		}
		l.byName[s.Name] = t
		l.tasks = append(l.tasks, t)
	}
	for _, t := range l.tasks {
		t.connect(l.byName)
	}
	return l, nil
}

// connect draws the edges of what t needs, each once.
func (t *task) connect(byName map[string]*task) {
	needs := slices.Clone(t.step.Needs)
	slices.SortFunc(needs, func(a, b plan.Need) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.On, b.On))
	})
	for _, n := range slices.Compact(needs) {
		need := byName[n.Step]
		t.needs = append(t.needs, edge{need, n.On})
		if need != nil {
			need.dependents = append(need.dependents, edge{t, n.On})
		}
	}
}

// announce emits the first event, which lists all steps.
func (l *loop) announce(p *plan.Plan, about string) {
	infos := make([]StepInfo, len(l.tasks))
	for i, t := range l.tasks {
		s, at := t.step, t.step.Locate("name").Pos
		infos[i] = StepInfo{
			Name: s.Name, Kind: string(s.Kind()), Group: s.Group, Cluster: cmp.Or(s.Cluster, p.Defaults.Cluster), Tags: s.Tags,
			Needs: s.NeedNames(), Finally: s.Last, TimeoutSeconds: t.timeout.Seconds(), File: at.File, Line: at.Line,
		}
		for _, n := range s.Needs {
			if n.On == "" || n.On == plan.NeedSuccess {
				continue
			}
			if infos[i].NeedsOn == nil {
				infos[i].NeedsOn = map[string]plan.NeedOn{}
			}
			infos[i].NeedsOn[n.Step] = n.On
		}
	}
	l.emit(Event{Type: TypePlan, Version: EventVersion, Plan: p.Metadata.Name, Message: about, Steps: infos})
}

// resolve makes the actions of all steps that run, but for late ones, before the
// first one starts. It reports whether all could be made; if not, nothing runs.
func (l *loop) resolve() bool {
	ok := true
	for _, t := range l.tasks {
		if !t.runs() || t.isDeferred() {
			continue
		}
		if t.action, t.err = l.resolver(t.step); t.err != nil {
			ok = false
		}
	}
	if ok {
		return true
	}
	for _, t := range l.tasks {
		if t.err != nil {
			l.fail(t, t.err, "")
		}
	}
	for _, t := range l.tasks {
		if !l.state(t).Terminal() {
			l.enter(t, Event{State: StateCancelled, Message: "not started: a step of the plan cannot run"})
		}
	}
	return false
}

// finish emits the last event and gathers the error.
func (l *loop) finish() (*Execution, error) {
	if !errors.Is(l.stopped, ErrStuck) && l.exec.Counts()[StateCancelled] == 0 {
		l.stopped = nil // the stop came too late to stop anything
	}
	errs := []error{l.stopped}
	for _, t := range l.tasks {
		if t.err != nil {
			errs = append(errs, &StepError{Step: t.step.Name, Err: l.redactError(t.err)})
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

func (l *loop) state(t *task) State { return l.exec.steps[t.index].State }

// enter emits that t entered e.State.
func (l *loop) enter(t *task, e Event) {
	e.Type, e.Step = TypeState, t.step.Name
	if t.attempt > 0 {
		e.Attempt, e.Attempts = t.attempt, t.attempts
	}
	l.emit(e)
}

// emit numbers e, folds it and shows it to the observers, without what must not
// be shown. Its time never goes back, also when the machine's clock does.
func (l *loop) emit(e Event) {
	e.Seq = l.exec.seq + 1
	e.Time = l.start.Add(time.Since(l.start)).Round(0).UTC()
	if l.redact != nil {
		e = e.redacted(l.redact)
	}
	l.exec.Apply(e)
	for _, o := range l.observers {
		o.Observe(e)
	}
}
