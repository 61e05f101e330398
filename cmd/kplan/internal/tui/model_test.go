package tui

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/stage"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// press presses keys one after another.
func press(m *Model, keys ...string) (last Act) {
	for _, key := range keys {
		last = m.Press(key)
	}
	return last
}

// TestReplayEndsAsTheRunDid checks that however the events of a run came, in which
// batches and with which beats between them, its last frame is the same, and that
// of a replay at any speed as well.
func TestReplayEndsAsTheRunDid(t *testing.T) {
	for _, name := range names(t) {
		events := recorded(t, name)
		want := at(Options{Unicode: true, Orders: true, Stay: true}, events, events[len(events)-1].Time).View()
		for seed := range uint64(8) {
			r := rand.New(rand.NewPCG(seed, 0))
			live := NewModel(Options{Unicode: true, Orders: true, Stay: true})
			for rest := events; len(rest) > 0; {
				n := 1 + r.IntN(len(rest))
				live.Tick(rest[n-1].Time.Add(time.Duration(r.IntN(50))*time.Millisecond), rest[:n]...)
				rest = rest[n:]
				_ = live.View()
			}
			live.Tick(events[len(events)-1].Time.Add(time.Hour))
			require.Equal(t, want, live.View(), name)
		}
		for _, speed := range []float64{0, 0.5, 1, 3, 1000} {
			m := NewModel(Options{Unicode: true, Replay: true, Speed: speed})
			p := player{stage.Player[runner.Event]{Events: events, At: func(e runner.Event) time.Time { return e.Time }}}
			for wall := time.Unix(0, 0); len(p.Shown()) < len(events); wall = wall.Add(stage.Pace) {
				p.play(m, wall)
				_ = m.View()
			}
			require.Equal(t, want, m.View(), "%s at speed %g", name, speed)
		}
	}
}

// TestPlayerPauses checks that a recorded run does not go on while the display is
// paused.
func TestPlayerPauses(t *testing.T) {
	events := recorded(t, "race")
	m := NewModel(Options{Replay: true, Speed: 1})
	p := player{stage.Player[runner.Event]{Events: events, At: func(e runner.Event) time.Time { return e.Time }}}
	wall := time.Unix(0, 0)
	p.play(m, wall)
	p.play(m, wall.Add(6*time.Second))
	require.Equal(t, 6*time.Second, m.now.Sub(events[0].Time))
	press(m, "p")
	p.play(m, wall.Add(time.Hour))
	require.Contains(t, m.View(), " paused ")
	press(m, "p", "+", "+")
	p.play(m, wall.Add(time.Hour+time.Second))
	require.Equal(t, 10*time.Second, m.now.Sub(events[0].Time), "one second at four times the speed")
	require.Contains(t, m.View(), " replay 4x ")
}

// TestPauseKeepsWhatHappens checks that a paused display stands still, time and all,
// and shows afterwards what happened.
func TestPauseKeepsWhatHappens(t *testing.T) {
	events := recorded(t, "race")
	m := at(Options{Unicode: true}, events, middle(events))
	rest := events[shownOf(events, middle(events)):]
	press(m, "p")
	before := m.View()
	require.Contains(t, before, " display paused, 0 events behind ")
	m.Tick(events[len(events)-1].Time, rest...)
	require.Contains(t, m.View(), fmt.Sprintf(" display paused, %d events behind ", len(rest)))
	require.Equal(t, strings.Split(before, "\n")[3:], strings.Split(m.View(), "\n")[3:])
	press(m, "p")
	require.Equal(t, at(Options{Unicode: true}, events, events[len(events)-1].Time).View(), m.View())
}

// shownOf counts the events up to a moment.
func shownOf(events []runner.Event, now time.Time) int {
	n := 0
	for n < len(events) && !events[n].Time.After(now) {
		n++
	}
	return n
}

// TestOrders checks which orders the keys give, and for which steps.
func TestOrders(t *testing.T) {
	start := time.Unix(0, 0)
	e := func(s string, state runner.State) runner.Event {
		return runner.Event{Time: start, Type: runner.TypeState, Step: s, State: state, Attempt: 1, Attempts: 2}
	}
	m := NewModel(Options{Orders: true})
	m.Tick(start, runner.Event{Time: start, Type: runner.TypePlan, Steps: []runner.StepInfo{
		{Name: "chart", Kind: "helm"}, {Name: "gate", Kind: "webhook"}, {Name: "later", Kind: "wait", Needs: []string{"gate"}},
	}}, e("chart", runner.StateRunning), e("gate", runner.StateRunning))

	require.Equal(t, Act{}, press(m, "r"))
	require.Contains(t, m.View(), "r is for a step that failed")
	require.Equal(t, Act{}, press(m, "g", "s"))
	require.Contains(t, m.View(), "s is for a wait or webhook step")

	m.Tick(start, e("chart", runner.StateRetrying))
	require.Equal(t, Act{Do: DoOrder, Order: runner.Order{Verb: runner.OrderRetry, Step: "chart"}}, press(m, "r"))

	press(m, "j", "s")
	require.Contains(t, m.View(), "skip the wait of gate? what needs it goes on  [y/n]")
	require.Equal(t, Act{}, press(m, "n"), "one that is not confirmed is none")
	require.Equal(t, Act{}, press(m, "s", "x"), "other keys do nothing")
	require.Equal(t, Act{Do: DoOrder, Order: runner.Order{Verb: runner.OrderSkip, Step: "gate"}}, press(m, "y"))
	require.Equal(t, Act{}, press(m, "y"), "it was asked once")

	require.Equal(t, Act{}, press(m, "e"), "the run does not wait for orders")
	m.Tick(start, e("chart", runner.StateFailed), e("gate", runner.StateSkipped), runner.Event{Time: start, Type: runner.TypePaused})
	require.Contains(t, m.View(), "paused")
	require.Equal(t, Act{Do: DoOrder, Order: runner.Order{Verb: runner.OrderEnd}}, press(m, "e"))

	m.Tick(start, runner.Event{Time: start, Type: runner.TypeOrder, Step: "gate", Message: "retry", Error: "step gate did not fail"})
	require.Contains(t, m.View(), "retry gate refused: step gate did not fail")

	m.Tick(start, runner.Event{Time: start, Type: runner.TypeDone, State: runner.StateFailed})
	require.Equal(t, Act{}, press(m, "r"), "the run is over")
}

// TestStop checks that ^C stops the run and, when that is over, closes the display;
// also where letters are typed or a question is open.
func TestStop(t *testing.T) {
	events := recorded(t, "race")
	for _, before := range [][]string{nil, {"?"}, {"/", "x"}, {"s"}, {"4"}} {
		m := at(Options{Orders: true}, events, middle(events))
		press(m, before...)
		require.Equal(t, Act{Do: DoStop}, press(m, "ctrl+c"), before)
		require.Contains(t, m.View(), "stopping: nothing new starts")
		require.Equal(t, Act{Do: DoStop}, press(m, "ctrl+c"), before)
		require.Equal(t, 2, m.stops)
	}
	m := at(Options{Orders: true}, events, events[len(events)-1].Time)
	require.Equal(t, Act{Do: DoLeave}, press(m, "ctrl+c"))
	m = NewModel(Options{Replay: true})
	require.Equal(t, Act{Do: DoLeave}, press(m, "ctrl+c"), "a recorded run cannot be stopped")
}

// TestFilter writes a filter, and takes it away.
func TestFilter(t *testing.T) {
	events := recorded(t, "failure")
	m := at(Options{}, events, events[len(events)-1].Time)
	press(m, "/", "F", "a", "i", "x")
	require.Contains(t, m.View(), "nothing matches the filter Faix")
	press(m, "backspace", "l", " ")
	m.Paste("sta\nle \x1b[2J")
	press(m, "enter")
	require.Contains(t, m.View(), " filter: Fail sta le ")
	require.Contains(t, m.View(), "stale")
	require.NotRegexp(t, "evil +helm", m.View())
	m.Paste("q")
	press(m, "esc")
	require.Contains(t, m.View(), "evil")
}

// TestFollowing checks that a list follows what is at work until the cursor is
// moved, and again on f.
func TestFollowing(t *testing.T) {
	events := many(300)
	m := NewModel(Options{})
	last := events[0].Time
	for _, e := range events[:len(events)*3/4] {
		m.Tick(e.Time, e)
		last = e.Time
	}
	active := m.run.Execution().In(runner.StateRunning)[0].Name
	require.Contains(t, m.View(), active)
	press(m, "g")
	require.NotContains(t, m.View(), active)
	require.Contains(t, m.View(), "step-0000")
	press(m, "G")
	require.Contains(t, m.View(), "step-0299")
	press(m, "f")
	m.Tick(last)
	require.Contains(t, m.View(), active)
}

// many are the events of a run of n steps, eight of which run at once.
func many(n int) []runner.Event {
	var events []runner.Event
	now := time.Unix(1_700_000_000, 0)
	add := func(e runner.Event) {
		e.Seq, e.Time = len(events)+1, now
		events = append(events, e)
		now = now.Add(5 * time.Millisecond)
	}
	steps := make([]runner.StepInfo, n)
	for i := range steps {
		steps[i] = runner.StepInfo{Name: fmt.Sprintf("step-%04d", i), Kind: "helm"}
		if i >= 8 {
			steps[i].Needs = []string{steps[i-8].Name}
		}
	}
	add(runner.Event{Type: runner.TypePlan, Version: 1, Plan: "many", Steps: steps})
	for i := range n + 8 {
		if i >= 8 {
			add(runner.Event{Type: runner.TypeState, Step: steps[i-8].Name, State: runner.StateSucceeded, Attempt: 1, Attempts: 1})
		}
		if i < n {
			add(runner.Event{Type: runner.TypeState, Step: steps[i].Name, State: runner.StateRunning, Attempt: 1, Attempts: 1})
			add(runner.Event{Type: runner.TypeProgress, Step: steps[i].Name, Object: "Deployment/demo/web", Message: "1 of 3 replicas are ready", Done: 4, Total: 9})
		}
	}
	add(runner.Event{Type: runner.TypeDone, State: runner.StateSucceeded})
	return events
}

// TestAnything checks that whatever keys are pressed, events come and sizes the
// terminal has, a frame fills the screen, and nothing in it is obeyed by a terminal.
func TestAnything(t *testing.T) {
	runs := [][]runner.Event{many(40)}
	for _, name := range names(t) {
		runs = append(runs, recorded(t, name))
	}
	var keys []string
	for _, b := range bindings() {
		keys = append(keys, b.keys...)
	}
	keys = append(keys, "y", "n", "x", "backspace", "ctrl+u", "é", "漢")
	rapid.Check(t, func(t *rapid.T) {
		events := runs[rapid.IntRange(0, len(runs)-1).Draw(t, "run")]
		m := NewModel(Options{
			Unicode: rapid.Bool().Draw(t, "unicode"), Orders: rapid.Bool().Draw(t, "orders"),
			Replay: rapid.Bool().Draw(t, "replay"), Speed: 1,
		})
		now := events[0].Time
		t.Repeat(map[string]func(*rapid.T){
			"events": func(t *rapid.T) {
				n := rapid.IntRange(0, min(20, len(events))).Draw(t, "n")
				if n > 0 {
					now = events[n-1].Time
				}
				m.Tick(now, events[:n]...)
				events = events[n:]
			},
			"beat":   func(t *rapid.T) { now = now.Add(time.Second); m.Tick(now) },
			"key":    func(t *rapid.T) { m.Press(rapid.SampledFrom(keys).Draw(t, "key")) },
			"wheel":  func(t *rapid.T) { m.Wheel(rapid.IntRange(-9, 9).Draw(t, "lines")) },
			"click":  func(t *rapid.T) { m.Click(0, rapid.IntRange(-1, 60).Draw(t, "y")) },
			"resize": func(t *rapid.T) { m.Resize(rapid.IntRange(1, 200).Draw(t, "w"), rapid.IntRange(1, 60).Draw(t, "h")) },
			"": func(t *rapid.T) {
				view := m.View()
				if lines := strings.Split(view, "\n"); len(lines) != m.height {
					t.Fatalf("%d lines, not %d", len(lines), m.height)
				}
				for line := range strings.SplitSeq(view, "\n") {
					if w := words.Width(line); w > m.width {
						t.Fatalf("%d cells, not %d: %q", w, m.width, line)
					}
				}
				if words.Clean(view) != view {
					t.Fatalf("not clean: %q", view)
				}
			},
		})
	})
}

func BenchmarkFrame(b *testing.B) {
	for _, n := range []int{20, 2000} {
		for v, view := range []string{"steps", "timeline", "webhooks", "log"} {
			b.Run(fmt.Sprintf("%s/%d", view, n), func(b *testing.B) {
				events := many(n)
				m := NewModel(Options{Colour: true, Unicode: true})
				m.Resize(200, 60)
				m.Tick(events[len(events)*3/4].Time, events[:len(events)*3/4]...)
				m.Press(fmt.Sprint(v + 1))
				b.ReportAllocs()
				for b.Loop() {
					_ = m.View()
				}
			})
		}
	}
}

// TestOpenStep checks what is told below a step: the Helm hook that runs, what
// keeps a webhook from answering, also in words, and the requests that it holds.
func TestOpenStep(t *testing.T) {
	start := time.Unix(0, 0)
	m := NewModel(Options{})
	m.Resize(90, 20)
	m.Tick(start, runner.Event{Time: start, Type: runner.TypePlan, Steps: []runner.StepInfo{{Name: "chart", Kind: "helm"}}},
		runner.Event{Time: start, Type: runner.TypeState, Step: "chart", State: runner.StateRunning, Attempt: 1, Attempts: 1},
		runner.Event{Time: start, Type: runner.TypeProgress, Step: "chart", Message: "hook Job/demo/migrate"})
	require.Contains(t, m.View(), "| Helm hook  Job/demo/migrate\n")

	hook := func(state, cause, words string) *runner.Webhook {
		return &runner.Webhook{Name: "w.example.com", Service: "demo/w", Configuration: "w", Rung: "backed", State: state, Cause: cause, Explanation: words}
	}
	m.Tick(start.Add(4*time.Second),
		runner.Event{Time: start.Add(time.Second), Type: runner.TypeHeld, Step: "chart", Object: "Widget/demo/a", Webhook: &runner.Webhook{Name: "w.example.com", Service: "demo/w", Cause: "connection refused"}},
		runner.Event{Time: start.Add(time.Second), Type: runner.TypeHeld, Step: "chart", Object: "Widget/demo/b", Webhook: &runner.Webhook{Name: "w.example.com", Service: "demo/w", Cause: "connection refused"}},
		runner.Event{Time: start.Add(time.Second), Type: runner.TypeState, Step: "chart", State: runner.StateHolding, Attempt: 1, Attempts: 1},
		runner.Event{Time: start.Add(2 * time.Second), Type: runner.TypeWebhook, Step: "chart", Webhook: hook("failed", "pod w-1 cannot be pulled", "the image is not there")})
	view := m.View()
	for _, line := range []string{
		"2 requests held by w.example.com",
		"| ladder     + configured  + trusted  + routed  x backed  . serving  . admitting\n",
		"| backed     failed for 2.0s: pod w-1 cannot be pulled\n",
		"| means      the image is not there\n",
		"| holds      2 requests for 3.0s: Widget/demo/a and 1 more\n",
		"|            last answer: connection refused\n",
	} {
		require.Contains(t, view, line)
	}
}

// The hooks of a chart stand below its step, each on a line, and what a step waits for
// that could start but for its concurrency group.
func TestHooksAndGroups(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	all := []runner.Event{
		{Type: runner.TypePlan, Plan: "p", Steps: []runner.StepInfo{{Name: "a", Kind: "helm", ConcurrencyGroup: "repo"}, {Name: "b", Kind: "helm", ConcurrencyGroup: "repo"}}},
		{Type: runner.TypeState, Step: "a", State: runner.StateRunning, Attempt: 1, Attempts: 1},
		{Type: runner.TypeState, Step: "b", State: runner.StatePending, WaitsFor: "a"},
		{Type: runner.TypeHook, Step: "a", Object: "ServiceAccount/n/x", Hook: &runner.Hook{Event: "pre-install", Weight: -5, State: runner.HookSucceeded}},
		{Type: runner.TypeHook, Step: "a", Object: "Job/n/x", Hook: &runner.Hook{Event: "pre-install", State: runner.HookRunning}},
	}
	for i := range all {
		all[i].Seq, all[i].Time = i+1, start.Add(time.Duration(i)*time.Second)
	}
	m := NewModel(Options{})
	m.Resize(100, 20)
	m.Tick(start.Add(6*time.Second), all...)
	view := m.View()
	require.Contains(t, view, "pre-install ServiceAccount/n/x (weight -5) succeeded")
	require.Contains(t, view, "pre-install Job/n/x running for 2.0s")
	require.Contains(t, view, "waits for group repo (step a)")
}

// The display of one cluster of a fleet names it, and leads back.
func TestMember(t *testing.T) {
	m := NewModel(Options{Unicode: true, Member: "prod/east-1"})
	require.Contains(t, m.View(), "nothing is told of the plan on this cluster yet")
	events := recorded(t, "race")
	m.Tick(events[len(events)-1].Time, events...)
	require.Contains(t, m.View(), " prod/east-1: race ")
	require.Contains(t, m.View(), "Esc back")
	require.NotContains(t, m.View(), "quit")
	require.Equal(t, DoNothing, press(m, "?", "esc").Do)
	require.Equal(t, DoNothing, press(m, "/", "r", "enter", "esc").Do)
	require.Equal(t, DoLeave, press(m, "esc").Do)
	require.Equal(t, DoLeave, press(m, "q").Do)
}
