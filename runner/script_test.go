package runner_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// scenario is a plan with scripted actions, read from a few lines:
//
//	parallel N               how many steps run at once
//	about TEXT               what the plan is run on
//	grace DURATION           how long an action may go on after its end
//	cancel AT [CAUSE]        when the run is stopped: interrupt (default), terminate or any text
//	abort AT                 when it is aborted
//	order AT VERB [STEP]     what is ordered, and when
//	linger                   the run waits for orders when steps failed
//	secret TEXT              what must not be shown
//	step NAME [needs=a,b:failure] [timeout=D] [retries=N] [delay=SECONDS] [multiplier=N]
//	     [max=SECONDS] [jitter=N] [on=CLASS,…] [group=NAME/PARALLEL] [concurrency=GROUP] [cluster=C] [tags=a,b]
//	     [when=false] [skip=WHY] [finally] [kind=apply]
//	do NAME[/ATTEMPT] OP; OP; …
//
// Ops: a duration sleeps (and returns the cause when the context ends),
// "busy D" sleeps whatever happens, "hang" never ends, and see (*scripted).op.
type scenario struct {
	plan   *plan.Plan
	runner runner.Runner
	cancel time.Duration
	cause  error
	abort  time.Duration
	orders []timedOrder
	ops    map[string][]string // by NAME or NAME/ATTEMPT
	broken map[string]string   // resolver errors by step
}

func parseScenario(t *testing.T, src string) *scenario {
	t.Helper()
	s := &scenario{
		plan: &plan.Plan{Metadata: plan.Metadata{Name: "demo"}},
		ops:  map[string][]string{}, broken: map[string]string{},
	}
	for line := range strings.Lines(src) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		if f := strings.Fields(line); len(f) > 0 {
			s.line(t, f)
		}
	}
	return s
}

func (s *scenario) line(t *testing.T, f []string) {
	t.Helper()
	rest := strings.Join(f[1:], " ")
	switch f[0] {
	case "parallel":
		s.runner.Parallel, _ = strconv.Atoi(rest)
	case "about":
		s.runner.About = rest
	case "grace":
		s.runner.Grace = duration(t, rest)
	case "cancel":
		s.cancel = duration(t, f[1])
		switch cause := strings.Join(f[2:], " "); cause {
		case "", "interrupt":
			s.cause = &runner.Interrupted{Signal: os.Interrupt}
		case "terminate":
			s.cause = &runner.Interrupted{Signal: syscall.SIGTERM}
		default:
			s.cause = errors.New(cause)
		}
	case "abort":
		s.abort = duration(t, rest)
	case "order":
		s.orders = append(s.orders, timedOrder{duration(t, f[1]), runner.Order{Verb: runner.Verb(f[2]), Step: strings.Join(f[3:], " ")}})
	case "linger":
		s.runner.Linger = true
	case "secret":
		s.runner.Redact = func(text string) string { return strings.ReplaceAll(text, rest, "***") }
	case "step":
		s.step(t, f[1], f[2:])
	case "broken":
		s.broken[f[1]] = strings.Join(f[2:], " ")
	case "do":
		for op := range strings.SplitSeq(strings.Join(f[2:], " "), ";") {
			s.ops[f[1]] = append(s.ops[f[1]], strings.TrimSpace(op))
		}
	default:
		t.Fatalf("no such line: %s", f[0])
	}
}

func (s *scenario) step(t *testing.T, name string, options []string) {
	t.Helper()
	step := plan.Step{Name: name, Wait: &plan.Wait{}, Retry: &plan.Retry{InstallRetries: 1, RetryDelaySeconds: new(10.0)}}
	for _, o := range options {
		key, value, _ := strings.Cut(o, "=")
		switch key {
		case "needs":
			for n := range strings.SplitSeq(value, ",") {
				name, on, _ := strings.Cut(n, ":")
				step.Needs = append(step.Needs, plan.Need{Step: name, On: plan.NeedOn(on)})
			}
		case "timeout":
			d := plan.Duration(duration(t, value))
			step.Timeout = &d
		case "kind": // else wait
			step.Wait, step.Apply = nil, &plan.Apply{}
		case "retries":
			step.Retry.InstallRetries, _ = strconv.Atoi(value)
		case "delay":
			step.Retry.RetryDelaySeconds = new(number(t, value))
		case "multiplier":
			step.Retry.Multiplier, _ = strconv.ParseFloat(value, 64)
		case "max":
			step.Retry.MaxDelaySeconds, _ = strconv.ParseFloat(value, 64)
		case "jitter":
			step.Retry.Jitter = new(number(t, value))
		case "on":
			for class := range strings.SplitSeq(value, ",") {
				step.Retry.On = append(step.Retry.On, plan.RetryOn(class))
			}
		case "group":
			group, parallel, _ := strings.Cut(value, "/")
			step.Group = group
			step.Parallel, _ = strconv.Atoi(parallel)
		case "concurrency":
			step.ConcurrencyGroup = value
		case "cluster":
			step.Cluster = value
		case "tags":
			step.Tags = strings.Split(value, ",")
		case "when":
			step.When = value == "true"
		case "skip":
			step.Skip = value
		case "finally":
			step.Last = true
		default:
			t.Fatalf("no such option: %s", o)
		}
	}
	s.plan.Steps = append(s.plan.Steps, step)
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// run plays the scenario; call it in a synctest bubble. It returns after every
// goroutine that it started has ended.
func (s *scenario) run(t *testing.T, observers ...runner.Observer) (*runner.Execution, error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	release := make(chan struct{}) // ends actions that hang
	defer func() { close(release); time.Sleep(time.Hour) }()
	if s.cancel > 0 {
		defer time.AfterFunc(s.cancel, func() { cancel(s.cause) }).Stop()
	}
	if s.abort > 0 {
		abort := make(chan struct{})
		defer time.AfterFunc(s.abort, func() { close(abort) }).Stop()
		s.runner.Abort = abort
	}
	if len(s.orders) > 0 {
		orders := make(chan runner.Order, len(s.orders))
		s.runner.Orders = orders
		for _, o := range s.orders {
			defer time.AfterFunc(o.at, func() { orders <- o.order }).Stop()
		}
	}
	s.runner.Observers = observers
	s.runner.Resolve = func(step plan.Step) (runner.Action, error) {
		if msg := s.broken[step.Name]; msg != "" {
			return nil, runner.WithHint(errors.New(msg), "mend it")
		}
		return &scripted{scenario: s, name: step.Name, release: release}, nil
	}
	return s.runner.Run(ctx, s.plan)
}

// timedOrder is an order, and when it comes.
type timedOrder struct {
	at    time.Duration
	order runner.Order
}

// scripted is an action that does what the scenario says.
type scripted struct {
	scenario *scenario
	name     string
	attempt  int
	release  <-chan struct{}
}

func (a *scripted) Run(ctx context.Context, r runner.Reporter) error {
	a.attempt++
	ops, ok := a.scenario.ops[fmt.Sprintf("%s/%d", a.name, a.attempt)]
	if !ok {
		ops = a.scenario.ops[a.name]
	}
	for _, op := range ops {
		f := strings.Fields(op)
		if d, err := time.ParseDuration(f[0]); err == nil {
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		if done, err := a.op(f[0], f[1:], r); done {
			return err
		}
	}
	return nil
}

// op does one thing, and tells whether the action returns, and what.
func (a *scripted) op(verb string, args []string, r runner.Reporter) (bool, error) {
	rest := strings.Join(args, " ")
	switch verb {
	case "busy":
		d, _ := time.ParseDuration(rest)
		time.Sleep(d)
	case "hang":
		<-a.release
	case "progress":
		r.Report(runner.Report{Type: runner.TypeProgress, Message: rest, Done: 1, Total: 3})
	case "log":
		r.Report(runner.Report{Type: runner.TypeLog, Message: rest})
	case "lie": // a type that is not an action's to report
		r.Report(runner.Report{Type: runner.TypeDone, Message: rest})
	case "held": // WEBHOOK OBJECT CAUSE
		r.Report(runner.Report{Type: runner.TypeHeld, Object: args[1], Webhook: &runner.Webhook{
			Name: args[0], Service: "demo/" + args[0], Cause: strings.Join(args[2:], " "),
		}})
	case "stands": // WEBHOOK RUNG STATE CAUSE
		r.Report(runner.Report{Type: runner.TypeWebhook, Webhook: &runner.Webhook{
			Name: args[0], Rung: args[1], State: args[2], Cause: strings.Join(args[3:], " "),
		}})
	case "released": // WEBHOOK OBJECT SECONDS SENDS [ERROR]
		held, _ := strconv.ParseFloat(args[2], 64)
		sends, _ := strconv.Atoi(args[3])
		r.Report(runner.Report{
			Type: runner.TypeReleased, Object: args[1], Error: strings.Join(args[4:], " "),
			Webhook: &runner.Webhook{Name: args[0], HeldSeconds: held, Sends: sends},
		})
	case "hook": // STATE EVENT WEIGHT OBJECT [ERROR]
		weight, _ := strconv.Atoi(args[2])
		r.Report(runner.Report{
			Type: runner.TypeHook, Object: args[3], Error: strings.Join(args[4:], " "),
			Hook: &runner.Hook{Event: args[1], Weight: weight, State: runner.HookState(args[0])},
		})
	case "outputs": // NAME=VALUE, or NAME!=VALUE for a sensitive one
		for _, o := range args {
			name, value, _ := strings.Cut(o, "=")
			rep := runner.Report{Type: runner.TypeOutputs}
			if bare, ok := strings.CutSuffix(name, "!"); ok {
				name, rep.Sensitive = bare, []string{bare}
			}
			rep.Outputs = map[string]any{name: value}
			r.Report(rep)
		}
	case "result":
		r.Report(runner.Report{Type: runner.TypeResult, Message: rest, Revision: 1})
	case "unchanged":
		r.Report(runner.Report{Type: runner.TypeResult, Unchanged: true, Revision: 7})
	default:
		return a.end(verb, rest)
	}
	return false, nil
}

// end returns from the action.
func (a *scripted) end(verb, rest string) (bool, error) {
	switch verb {
	case "fail":
		return true, runner.WithHint(errors.New(rest), "look at it")
	case "class": // CLASS TEXT
		class, text, _ := strings.Cut(rest, " ")
		return true, &classError{errors.New(text), plan.RetryOn(class)}
	case "permanent":
		return true, runner.Permanent(errors.New(rest))
	case "timeout":
		return true, &runner.TimeoutError{After: 5 * time.Minute, For: rest, Last: "endpoints 0/1"}
	case "wake": // fails, and knows when it is worth another attempt
		d, _ := time.ParseDuration(rest)
		wake := make(chan struct{})
		time.AfterFunc(d, func() { close(wake) })
		return true, &wakingError{wake}
	case "panic":
		panic(rest)
	case "goexit":
		runtime.Goexit()
	}
	panic("no such op: " + verb)
}

// classError is a failure of a kind. Permanent ones that have a kind are those
// which another attempt may mend after all.
type classError struct {
	error
	class plan.RetryOn
}

func (e *classError) Classes() []plan.RetryOn { return []plan.RetryOn{e.class} }

type wakingError struct{ wake chan struct{} }

func (e *wakingError) Error() string         { return "webhook is not there yet" }
func (e *wakingError) Wake() <-chan struct{} { return e.wake }

// trace draws events, one line each.
type trace struct {
	start time.Time
	lines []string
}

func (tr *trace) Observe(e runner.Event) {
	if e.Seq == 1 {
		tr.start = e.Time
	}
	subject, what := e.Step, string(e.Type)
	switch e.Type {
	case runner.TypePlan:
		subject = e.Plan
		for _, s := range e.Steps {
			what += " " + s.Name
			if s.Finally {
				what += "!"
			}
			var needs []string
			for _, n := range s.Needs {
				if on := s.NeedsOn[n]; on != "" {
					n += ":" + string(on)
				}
				needs = append(needs, n)
			}
			if len(needs) > 0 {
				what += "(" + strings.Join(needs, " ") + ")"
			}
		}
	case runner.TypeState:
		what = string(e.State)
	case runner.TypeDone:
		what += " " + string(e.State)
		for _, s := range runner.States {
			if n := e.Counts[s]; n > 0 {
				what += fmt.Sprintf(" %s=%d", s, n)
			}
		}
	default: // what they carry is drawn below
	}
	if e.Attempt > 0 {
		what += fmt.Sprintf(" %d/%d", e.Attempt, e.Attempts)
	}
	if e.DelaySeconds > 0 {
		what += fmt.Sprintf(" for %gs", e.DelaySeconds)
	}
	if w := e.Webhook; w != nil {
		if w.Rung != "" {
			what += fmt.Sprintf(" %s %s %s", w.Name, w.Rung, w.State)
		} else {
			what += fmt.Sprintf(" %s by %s", e.Object, w.Name)
		}
		if w.Sends > 0 {
			what += fmt.Sprintf(" %gs %d sends", w.HeldSeconds, w.Sends)
		}
		if w.Cause != "" {
			what += ", " + w.Cause
		}
	}
	if h := e.Hook; h != nil {
		what += fmt.Sprintf(" %s %s (weight %d) %s", h.Event, e.Object, h.Weight, h.State)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Outputs)) {
		what += fmt.Sprintf(" %s=%v", name, e.Outputs[name])
	}
	for _, s := range []string{e.Message, e.Error} {
		if s != "" {
			what += ": " + firstLine(s)
		}
	}
	if e.Revision > 0 {
		what += fmt.Sprintf(" rev=%d", e.Revision)
	}
	if e.Hint != "" {
		what += " (hint: " + e.Hint + ")"
	}
	tr.lines = append(tr.lines, fmt.Sprintf("%2d %6s  %-5s %s", e.Seq, e.Time.Sub(tr.start), subject, what))
}

func firstLine(s string) string {
	if strings.HasPrefix(s, "goroutine ") {
		return "(stack)"
	}
	first, _, more := strings.Cut(s, "\n")
	if more {
		return first + " …"
	}
	return first
}

// recorder keeps events.
type recorder []runner.Event

func (r *recorder) Observe(e runner.Event) { *r = append(*r, e) }
