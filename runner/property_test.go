package runner_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// TestAnyPlan runs random graphs with random behaviour and checks on the
// event stream what must hold for every run.
func TestAnyPlan(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		src := drawScenario(rt)
		var (
			events recorder
			exec   *runner.Execution
			err    error
			s      *scenario
		)
		synctest.Test(t, func(t *testing.T) {
			s = parseScenario(t, src)
			exec, err = s.run(t, &events)
		})
		c := checker{rt: rt, parallel: s.runner.Parallel, groups: map[string]int{"a": 1, "b": 2}, x: &runner.Execution{}}
		for _, e := range events {
			c.check(e)
		}
		require.Equal(rt, runner.TypeDone, events[len(events)-1].Type)
		require.Equal(rt, exec, replay(t, events))
		checkEnd(rt, exec, err, s)
	})
}

// drawScenario makes a graph in which a step needs only earlier ones.
func drawScenario(rt *rapid.T) string {
	var b strings.Builder
	n := rapid.IntRange(1, 12).Draw(rt, "steps")
	fmt.Fprintf(&b, "parallel %d\ngrace 3s\n", rapid.IntRange(1, 4).Draw(rt, "parallel"))
	if rapid.IntRange(0, 4).Draw(rt, "stop") == 0 {
		at := rapid.IntRange(1, 15000).Draw(rt, "cancel")
		fmt.Fprintf(&b, "cancel %dms\n", at)
		if rapid.Bool().Draw(rt, "twice") {
			fmt.Fprintf(&b, "abort %dms\n", at+rapid.IntRange(0, 3000).Draw(rt, "abort"))
		}
	}
	verbs := []string{
		"1ms", "700ms", "2s", "2s", "2s", "busy 1s", "hang", "fail boom", "permanent no", "timeout x", "panic p", "wake 1s",
		"class network x", "class conflict x", "outputs x=1", "outputs x!=1",
		"progress p", "result r", "unchanged", "held w1 A/x no", "held w2 A/x no", "released w1 A/x 1 2", "released w2 B/x 1 2",
	}
	finally := n - rapid.IntRange(0, min(n, 3)).Draw(rt, "finally")
	for i := range n {
		fmt.Fprintf(&b, "step s%d timeout=%ds retries=%d delay=%d", i,
			rapid.IntRange(1, 9).Draw(rt, "timeout"), rapid.IntRange(1, 3).Draw(rt, "retries"), rapid.IntRange(0, 3).Draw(rt, "delay"))
		drawRetry(rt, &b)
		b.WriteString(rapid.SampledFrom([]string{"", "", "", "", "", " when=false", " skip=unpicked", " group=a/1", " group=b/2"}).Draw(rt, "kind"))
		b.WriteString(rapid.SampledFrom([]string{"", "", " concurrency=x", " concurrency=y"}).Draw(rt, "concurrency"))
		if i >= finally {
			b.WriteString(" finally")
		}
		if i > 0 {
			if needs := rapid.SliceOfNDistinct(rapid.IntRange(0, i-1), 0, 3, rapid.ID).Draw(rt, "needs"); len(needs) > 0 {
				names := make([]string, len(needs))
				for j, need := range needs {
					names[j] = fmt.Sprintf("s%d", need) + rapid.SampledFrom([]string{"", "", "", ":failure", ":always"}).Draw(rt, "on")
				}
				fmt.Fprintf(&b, " needs=%s", strings.Join(names, ","))
			}
		}
		ops := rapid.SliceOfN(rapid.SampledFrom(verbs), 1, 6).Draw(rt, "ops")
		fmt.Fprintf(&b, "\ndo s%d %s\n", i, strings.Join(ops, "; "))
	}
	return b.String()
}

func drawRetry(rt *rapid.T, b *strings.Builder) {
	if rapid.Bool().Draw(rt, "plain") {
		return
	}
	fmt.Fprintf(b, " multiplier=%d max=%d jitter=%g", rapid.IntRange(1, 3).Draw(rt, "multiplier"), rapid.IntRange(1, 5).Draw(rt, "max"),
		rapid.Float64Range(0, 1).Draw(rt, "jitter"))
	b.WriteString(rapid.SampledFrom([]string{"", " on=network", " on=timeout,conflict", " on=any"}).Draw(rt, "retry on"))
}

// checker holds what one event may follow on.
type checker struct {
	rt       *rapid.T
	parallel int
	groups   map[string]int // how many of a group may run at once
	x        *runner.Execution
	last     runner.Event
	stopped  bool
}

func (c *checker) check(e runner.Event) {
	require.Equal(c.rt, c.last.Seq+1, e.Seq, "numbers have no gap")
	require.False(c.rt, e.Time.Before(c.last.Time), "time never goes back")
	require.Equal(c.rt, e.Seq == 1, e.Type == runner.TypePlan)
	require.NotEqual(c.rt, runner.TypeDone, c.last.Type, "done is the last event")
	if s := c.x.Step(e.Step); s != nil {
		require.False(c.rt, s.State.Terminal(), "%s says something after its end", e.Step)
		if e.Type == runner.TypeState {
			c.transition(s, e)
		}
	}
	c.stopped = c.stopped || e.Type == runner.TypeCancel
	c.x.Apply(e)
	c.last = e
	running := c.x.In(runner.StateRunning, runner.StateHolding)
	require.LessOrEqual(c.rt, len(running), c.parallel)
	inGroup := map[string]int{}
	for _, s := range running {
		if inGroup[s.Group]++; s.Group != "" {
			require.LessOrEqual(c.rt, inGroup[s.Group], c.groups[s.Group], "group %s", s.Group)
		}
	}
	has := map[string]string{}
	for _, s := range c.x.In(runner.StateRunning, runner.StateHolding, runner.StateRetrying) {
		if g := s.ConcurrencyGroup; g != "" {
			require.Empty(c.rt, has[g], "%s and another step have group %s", s.Name, g)
			has[g] = s.Name
		}
	}
	for _, s := range c.x.Steps() {
		if e.Type == runner.TypeState && e.Step == s.Name {
			require.Equal(c.rt, s.State == runner.StateHolding, s.Held() > 0 && s.State.Active(), "%s holds", s.Name)
		}
	}
}

// transitions is the diagram of runner.State.
var transitions = map[runner.State][]runner.State{
	runner.StatePending: {runner.StatePending, runner.StateRunning, runner.StateSkipped, runner.StateBlocked, runner.StateCancelled},
	runner.StateRunning: {
		runner.StateHolding, runner.StateRetrying, runner.StateSucceeded, runner.StateUnchanged, runner.StateFailed, runner.StateCancelled,
	},
	runner.StateHolding: {
		runner.StateRunning, runner.StateRetrying, runner.StateSucceeded, runner.StateUnchanged, runner.StateFailed, runner.StateCancelled,
	},
	runner.StateRetrying: {runner.StateRunning, runner.StateFailed, runner.StateCancelled},
}

func (c *checker) transition(s *runner.Step, e runner.Event) {
	require.Contains(c.rt, transitions[s.State], e.State, "%s", s.Name)
	if e.State == runner.StatePending {
		holder := c.x.Step(e.WaitsFor)
		require.Equal(c.rt, s.ConcurrencyGroup, holder.ConcurrencyGroup)
		require.False(c.rt, holder.State.Terminal(), "%s waits for %s, which has ended", s.Name, holder.Name)
		require.Empty(c.rt, s.WaitsFor, "it is told once")
	}
	if e.State == runner.StateRetrying {
		require.LessOrEqual(c.rt, e.DelaySeconds, 10.0, "no delay is longer than the plan says")
	}
	starts := e.State == runner.StateRunning && !s.State.Active()
	if starts || e.State == runner.StateSkipped {
		require.NotEqual(c.rt, runner.StateBlocked, verdict(c.x, s), "%s starts or is skipped although a need is not met", s.Name)
		require.False(c.rt, starts && verdict(c.x, s) == runner.StateSkipped, "%s starts although nothing failed", s.Name)
		for _, other := range before(c.x, s) {
			require.True(c.rt, other.State.Terminal(), "%s starts while %s before it is %s", s.Name, other.Name, other.State)
		}
	}
	if !starts {
		return
	}
	require.False(c.rt, c.stopped && !s.Finally, "%s starts after the run was stopped", s.Name)
	require.Equal(c.rt, s.Attempt+1, e.Attempt)
	require.LessOrEqual(c.rt, e.Attempt, e.Attempts)
}

// before are all steps that must have ended before s starts.
func before(x *runner.Execution, s *runner.Step) []*runner.Step {
	seen := map[string]bool{}
	var visit func(*runner.Step)
	visit = func(s *runner.Step) {
		for _, need := range s.Needs {
			if !seen[need] {
				seen[need] = true
				visit(x.Step(need))
			}
		}
	}
	visit(s)
	return slices.DeleteFunc(slices.Clone(x.Steps()), func(o *runner.Step) bool { return !seen[o.Name] && (!s.Finally || o.Finally) })
}

// verdict tells what needs make of a step, now that they have ended: blocked,
// skipped, or, if they are met, pending.
func verdict(x *runner.Execution, s *runner.Step) runner.State {
	verdict := runner.StatePending
	wanted, failed := false, false
	for _, need := range s.Needs {
		switch state := x.Step(need).State; s.NeedsOn[need] {
		case plan.NeedAlways:
		case plan.NeedSuccess, "":
			if !state.Good() {
				return runner.StateBlocked
			}
		case plan.NeedFailure:
			wanted = true
			failed = failed || state == runner.StateFailed || state == runner.StateBlocked
		}
	}
	if wanted && !failed {
		verdict = runner.StateSkipped
	}
	return verdict
}

func checkEnd(rt *rapid.T, x *runner.Execution, err error, s *scenario) {
	counts := map[runner.State]int{}
	for i, step := range x.Steps() {
		require.True(rt, step.State.Terminal(), "%s is %s", step.Name, step.State)
		counts[step.State]++
		require.Zero(rt, step.Held())
		why := x.WhyBlocked(step.Name)
		if s.cause == nil {
			checkVerdict(rt, x, step, s.plan.Steps[i])
		}
		if step.State == runner.StateBlocked {
			require.True(rt, len(why) > 0 || s.cause != nil, "%s is blocked by nothing", step.Name)
		} else if s.cause == nil {
			require.Empty(rt, why, "%s is %s although %v failed", step.Name, step.State, why)
		}
	}
	require.Equal(rt, counts, x.Counts())
	require.Equal(rt, err == nil, x.State() == runner.StateSucceeded)
	require.Equal(rt, x.State() == runner.StateSucceeded, !slices.ContainsFunc(x.Steps(), func(s *runner.Step) bool { return !s.State.Good() }))
	for _, failed := range x.Failed() {
		require.Contains(rt, err.Error(), fmt.Sprintf("step %q: ", failed.Name))
	}
	if x.State() == runner.StateCancelled {
		require.True(rt, errors.Is(err, s.cause) || errors.Is(err, runner.ErrAborted))
	}
	var longest time.Duration
	for _, step := range x.Steps() {
		longest = max(longest, step.Elapsed(x.Last()))
	}
	require.LessOrEqual(rt, longest, x.Elapsed())
}

// checkVerdict checks that a step of a run that nobody stopped ended as its needs
// and the plan say.
func checkVerdict(rt *rapid.T, x *runner.Execution, step *runner.Step, in plan.Step) {
	want := verdict(x, step)
	if want == runner.StatePending && (in.Skip != "" || in.When == false) {
		want = runner.StateSkipped
	}
	if want != runner.StatePending {
		require.Equal(rt, want, step.State, step.Name)
		return
	}
	require.Contains(rt, []runner.State{runner.StateSucceeded, runner.StateUnchanged, runner.StateFailed}, step.State, step.Name)
}
