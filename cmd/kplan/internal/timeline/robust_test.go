package timeline

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kplan-dev/kplan/runner"
)

// TestOddEvents folds events in any order, of steps that exist or not, with
// times that jump: a file that somebody wrote by hand, or half of one.
func TestOddEvents(t *testing.T) {
	names := []string{"a", "b", "c", "", "nobody"}
	types := []runner.Type{
		runner.TypeState, runner.TypeState, runner.TypeState, runner.TypeProgress, runner.TypeHeld, runner.TypeHeld, runner.TypeReleased,
		runner.TypeWebhook, runner.TypeGuards, runner.TypeLog, runner.TypeResult, runner.TypeOutputs, runner.TypeCancel, "new",
	}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	event := rapid.Custom(func(t *rapid.T) runner.Event {
		e := runner.Event{
			Time: start.Add(time.Duration(rapid.IntRange(-5, 50).Draw(t, "second")) * time.Second),
			Type: rapid.SampledFrom(types).Draw(t, "type"), Step: rapid.SampledFrom(names).Draw(t, "step"),
			State: rapid.SampledFrom(append(slices.Clone(runner.States), "new")).Draw(t, "state"), Attempt: rapid.IntRange(-1, 3).Draw(t, "attempt"),
			Object: rapid.SampledFrom([]string{"", "X/1", "X/2"}).Draw(t, "object"), Message: rapid.SampledFrom([]string{"", "m", "n"}).Draw(t, "message"),
			Error: rapid.SampledFrom([]string{"", "e"}).Draw(t, "error"),
		}
		if rapid.Bool().Draw(t, "with webhook") {
			e.Webhook = &runner.Webhook{
				Name: rapid.SampledFrom([]string{"", "v", "w", runner.APIServer}).Draw(t, "webhook"), Service: rapid.SampledFrom([]string{"", "s"}).Draw(t, "service"),
				Configuration: rapid.SampledFrom([]string{"", "c", "d"}).Draw(t, "configuration"), Sends: rapid.IntRange(-1, 3).Draw(t, "sends"),
				Rung: rapid.SampledFrom(append(slices.Clone(Ladder), "", "new")).Draw(t, "rung"), State: rapid.SampledFrom([]string{Ready, Waiting, Failed, Unknown, ""}).Draw(t, "stands"),
			}
		}
		return e
	})
	rapid.Check(t, func(t *rapid.T) {
		l := &Timeline{}
		if rapid.IntRange(0, 9).Draw(t, "begins") > 0 {
			l.Apply(runner.Event{Time: start, Type: runner.TypePlan, Steps: []runner.StepInfo{
				{Name: "a", Needs: []string{"c"}}, {Name: "b", Needs: []string{"a", "gone"}, Cluster: "x"}, {Name: "c", Needs: []string{"b"}}, {Name: "last", Finally: true},
			}})
		}
		for _, e := range rapid.SliceOfN(event, 0, 60).Draw(t, "events") {
			l.Apply(e)
			check(t, l)
		}
		l.Apply(runner.Event{Time: start.Add(time.Minute), Type: runner.TypeDone, State: runner.StateFailed})
		for _, s := range l.Steps() {
			require.False(t, s.Spans[len(s.Spans)-1].To.IsZero(), "nothing is open after the end")
		}
	})
}

// TestBounds feeds more than is kept.
func TestBounds(t *testing.T) {
	events := run("a", "0 a running")
	tell := func(e runner.Event) {
		e.Time, e.Step = events[0].Time, "a"
		events = append(events, e)
	}
	for i := range 3 * SpanLimit {
		tell(runner.Event{Type: runner.TypeState, State: []runner.State{runner.StateHolding, runner.StateRunning}[i%2], Attempt: 1})
		tell(runner.Event{Type: runner.TypeLog, Message: strings.Repeat("é", 20)})
		tell(runner.Event{Type: runner.TypeProgress, Message: strings.Repeat("n", i)})
		tell(runner.Event{Type: runner.TypeProgress, Object: "X/" + strings.Repeat("o", i)})
		tell(runner.Event{Type: runner.TypeWebhook, Webhook: &runner.Webhook{Name: "w", Rung: Ladder[i%6], State: Waiting}})
	}
	for i := range HoldLimit + 10 {
		object := "Y/" + string(rune('a'+i%26)) + strings.Repeat("y", i/26)
		tell(runner.Event{Type: runner.TypeHeld, Object: object, Webhook: &runner.Webhook{Name: "w"}})
		tell(runner.Event{Type: runner.TypeReleased, Object: object, Webhook: &runner.Webhook{Name: "w", Sends: 2}})
	}
	tell(runner.Event{Type: runner.TypeState, State: runner.StateFailed, Error: "e"})
	l := fold(events)
	s, hook := l.Steps()[0], l.Webhooks()[0]
	require.Len(t, s.Spans, SpanLimit)
	require.Equal(t, runner.StateFailed, s.Spans[SpanLimit-1].State, "the end is never dropped")
	require.Len(t, s.Logs, LogLimit)
	require.Equal(t, 3*SpanLimit-LogLimit, s.LogsDropped)
	require.Len(t, s.Notes, NoteLimit)
	require.Len(t, s.Objects, ObjectLimit)
	require.Len(t, hook.Rungs, RungLimit)
	require.Len(t, hook.Holds, HoldLimit)
	require.Equal(t, HoldLimit+10, hook.Requests)
	require.Zero(t, hook.Held)

	l.Apply(runner.Event{Time: events[0].Time, Step: "a", Type: runner.TypeLog, Message: strings.Repeat("é", LogBytes) + "x end"})
	require.Len(t, s.Logs, 1, "one log may fill all")
	require.True(t, utf8.ValidString(s.Logs[0].Text), "a letter is not cut in two")
	require.True(t, strings.HasSuffix(s.Logs[0].Text, "x end"))
}

// TestEnd says when a run ends that goes on.
func TestEnd(t *testing.T) {
	l := fold(run("a", "0 a running"))
	at := func(s int) time.Time { return l.Start().Add(time.Duration(s) * time.Second) }
	require.Equal(t, at(5), l.End(at(5)))
	require.Equal(t, at(0), l.End(at(-5)), "no clock goes back")
	require.False(t, l.Ended())
	for _, e := range run("a", "7 a succeeded", "8 done succeeded")[1:] {
		l.Apply(e)
	}
	require.Equal(t, at(8), l.End(at(99)))
	require.True(t, l.Ended())
	require.Zero(t, (&Timeline{}).Start())
}

// BenchmarkApply folds the events of a run of 2,000 steps, as it does beside the
// engine.
func BenchmarkApply(b *testing.B) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	events := []runner.Event{{Time: start, Type: runner.TypePlan}}
	for i := range 2000 {
		events[0].Steps = append(events[0].Steps, runner.StepInfo{Name: "step-" + strings.Repeat("x", i%20) + string(rune('a'+i%26)) + strings.Repeat("y", i/26)})
	}
	for i := range 20000 {
		e := runner.Event{Time: start.Add(time.Duration(i) * time.Millisecond), Step: events[0].Steps[i%2000].Name, Attempt: 1}
		switch i / 2000 % 5 {
		case 0:
			e.Type, e.State = runner.TypeState, runner.StateRunning
		case 1:
			e.Type, e.Object, e.Webhook = runner.TypeHeld, "X/1", &runner.Webhook{Name: "w", Service: "s/w"}
		case 2:
			e.Type, e.Object, e.Message = runner.TypeProgress, "X/1", "ready"
		case 3:
			e.Type, e.Object, e.Webhook = runner.TypeReleased, "X/1", &runner.Webhook{Name: "w", Service: "s/w"}
		case 4:
			e.Type, e.Message = runner.TypeLog, "a line of a log"
		}
		events = append(events, e)
	}
	b.ReportAllocs()
	for b.Loop() {
		fold(events)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(events)), "ns/event")
}
