package timeline

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/runner"
)

// run makes events of lines such as "3 b running": what a step became, and after
// how many seconds. Steps are written as "name need need", with ! behind the
// name of a finally step, and a need such as group=NAME for a concurrency group.
func run(steps string, lines ...string) []runner.Event {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	first := runner.Event{Time: start, Type: runner.TypePlan, Plan: "p"}
	for s := range strings.SplitSeq(steps, ", ") {
		words := strings.Fields(s)
		name, last := strings.CutSuffix(words[0], "!")
		info := runner.StepInfo{Name: name, Finally: last}
		for _, word := range words[1:] {
			if group, is := strings.CutPrefix(word, "group="); is {
				info.ConcurrencyGroup = group
			} else {
				info.Needs = append(info.Needs, word)
			}
		}
		first.Steps = append(first.Steps, info)
	}
	events := []runner.Event{first}
	for _, line := range lines {
		words := strings.Fields(line)
		after, err := time.ParseDuration(words[0] + "s")
		if err != nil {
			panic(err) // a fault of the test
		}
		e := runner.Event{Time: start.Add(after), Type: runner.TypeState, Step: words[1], State: runner.State(words[len(words)-1])}
		if words[1] == "done" {
			e.Type, e.Step = runner.TypeDone, ""
		}
		if e.State.Active() {
			e.Attempt, e.Attempts = 1, 1
		}
		events = append(events, e)
	}
	return events
}

func TestCritical(t *testing.T) {
	tests := []struct {
		name   string
		steps  string
		events []string
		want   string
	}{
		{"nothing started", "a, b a", nil, ""},
		{"a chain", "a, b a, c b", []string{
			"0 a running", "2 a succeeded", "2 b running", "3 b succeeded", "3 c running", "9 c succeeded", "9 done succeeded",
		}, "a b c"},
		{"the slower of two needs", "a, b, c a b", []string{
			"0 a running", "0 b running", "1 b succeeded", "5 a succeeded", "5 c running", "6 c succeeded", "6 done succeeded",
		}, "a c"},
		{"a step beside that took longest", "a, b a, long", []string{
			"0 a running", "0 long running", "1 a succeeded", "1 b running", "2 b succeeded", "8 long succeeded", "8 done succeeded",
		}, "long"},
		{"through a skipped step", "a, b a, c b", []string{
			"0 a running", "4 a succeeded", "4 b skipped", "4 c running", "5 c succeeded", "5 done succeeded",
		}, "a c"},
		{"blocked steps never ran", "a, b a, c", []string{
			"0 a running", "0 c running", "1 c succeeded", "4 a failed", "4 b blocked", "4 done failed",
		}, "a"},
		{"through a concurrency group", "a group=g, b, c b group=g, d group=h", []string{
			"0 a running", "0 b running", "1 b succeeded", "1 d running", "2 d succeeded", "4 a succeeded", "4 c running", "6 c succeeded", "6 done succeeded",
		}, "a c"},
		{"a concurrency group that was free", "a group=g, b, c b group=g", []string{
			"0 a running", "0 b running", "1 a succeeded", "4 b succeeded", "4 c running", "6 c succeeded", "6 done succeeded",
		}, "b c"},
		{"finally waits for all", "a, b, last!", []string{
			"0 a running", "0 b running", "2 a succeeded", "7 b failed", "7 last running", "8 last succeeded", "8 done failed",
		}, "b last"},
		{"a finally step after another", "a, one!, two! one", []string{
			"0 a running", "2 a succeeded", "2 one running", "3 one succeeded", "3 two running", "4 two succeeded", "4 done succeeded",
		}, "a one two"},
		{"still at work", "a, b a, quick", []string{
			"0 a running", "0 quick running", "1 quick succeeded", "2 a succeeded", "2 b running",
		}, "a b"},
		{"waits for its next attempt", "a, b", []string{
			"0 a running", "0 b running", "1 a retrying", "2 b succeeded",
		}, "a"},
		{"of two at work the older", "a, b, c a", []string{
			"0 b running", "0 a running", "1 a succeeded", "1 c running",
		}, "b"},
		{"steps that took no time", "a, b a, c b", []string{
			"0 a running", "3 a succeeded", "3 b running", "3 b unchanged", "3 c running", "3 c unchanged", "3 done succeeded",
		}, "a b c"},
		{"needs in a circle end", "a b, b a", []string{
			"0 a running", "1 a succeeded", "1 b running", "2 b succeeded", "2 done succeeded",
		}, "a b"},
		{"a step that needs itself, and one that is not there", "a a x", []string{
			"0 a running", "1 a succeeded", "1 done succeeded",
		}, "a"},
		{"stopped", "a, b a", []string{
			"0 a running", "3 b cancelled", "4 a cancelled", "4 done cancelled",
		}, "a"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := fold(run(test.steps, test.events...))
			check(t, l)
			got := l.Critical(l.Start().Add(10 * time.Second))
			require.Equal(t, test.want, strings.Join(got, " "))
		})
	}
}
