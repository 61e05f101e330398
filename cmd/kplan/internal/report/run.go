package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// run is what all kinds of report draw on.
type run struct {
	*timeline.Timeline
	meta     Meta
	x        *runner.Execution
	end      time.Time
	critical []string
	blocks   map[string][]string // by the name of a failed step
}

func newRun(t *timeline.Timeline, m Meta) *run {
	r := &run{
		Timeline: t, meta: m, x: t.Execution(), end: t.End(time.Time{}), critical: t.Critical(time.Time{}),
		blocks: map[string][]string{},
	}
	for _, s := range r.x.Blocked() {
		for _, by := range r.x.WhyBlocked(s.Name) {
			r.blocks[by] = append(r.blocks[by], s.Name)
		}
	}
	return r
}

// state is that of the run. A record may be empty.
func (r *run) state() runner.State {
	if s := r.x.State(); slices.Contains(runner.States, s) {
		return s
	}
	return runner.StatePending
}

// stateOf is the state of a step. A file may have one that is none.
func stateOf(s *timeline.Step) runner.State {
	if slices.Contains(runner.States, s.State) {
		return s.State
	}
	return runner.State(cmp.Or(line(string(s.State)), "?"))
}

// stateCount is how many steps are in a state.
type stateCount struct {
	State runner.State
	N     int
}

func (r *run) counts() []stateCount {
	var all []stateCount
	n := r.x.Counts()
	for _, s := range runner.States {
		if n[s] > 0 {
			all = append(all, stateCount{s, n[s]})
		}
	}
	return all
}

// until is a time, or the end of the run if that is open.
func (r *run) until(t time.Time) time.Time {
	if t.IsZero() {
		return r.end
	}
	return t
}

func (r *run) elapsed() time.Duration { return max(r.end.Sub(r.Start()), 0) }

// took is how long a step took; "" if it never started.
func (r *run) took(s *timeline.Step) string {
	if s.Started.IsZero() {
		return ""
	}
	return words.Brief(s.Elapsed(r.end))
}

// held is how long requests of a step were held; "" when none was.
func (r *run) held(s *timeline.Step) string {
	if len(s.Holds) == 0 {
		return ""
	}
	return words.Brief(s.HoldTime(r.end))
}

// attempt is which attempt of how many was made last; "" before the first.
func attempt(s *timeline.Step) string {
	if s.Attempt == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.Attempt, s.Step.Attempts)
}

// where is the place of a step in the plan's files; "" when it is not known.
func where(s *timeline.Step) string {
	if s.File == "" || s.Line == 0 {
		return s.File
	}
	return fmt.Sprintf("%s:%d", s.File, s.Line)
}

// inWords adds to a cause what it says in words that take no knowledge of
// Kubernetes.
func inWords(cause, explanation string) string {
	if explanation == "" {
		return cause
	}
	return words.Join(" ", cause, "(in words: "+explanation+")")
}

// notice says what was told of the run as a whole.
func notice(n timeline.Notice) string {
	switch n.Type {
	case runner.TypePaused:
		return "nothing is left to do but what failed: the run waits for orders"
	case runner.TypeOrder:
		text := "somebody ordered: " + words.Join(" ", n.Text, n.Step)
		if n.Error != "" {
			text += " (refused: " + n.Error + ")"
		}
		return text
	default:
		return words.Join(": ", n.Error, n.Text)
	}
}

// failure is a step that failed, and others that did so for the same cause, as
// the steps that one for_each makes tend to.
type failure struct {
	*timeline.Step
	same []*timeline.Step
}

// failures are the steps that failed, those with one cause together.
func (r *run) failures() []*failure {
	var all []*failure
	known := map[string]*failure{}
	for _, s := range r.Steps() {
		if s.State != runner.StateFailed {
			continue
		}
		cause := []string{s.Error, s.Hint}
		for _, w := range s.Webhooks {
			cause = append(cause, w.Name, w.Rung, w.State, w.Cause)
		}
		key := strings.Join(cause, "\x00")
		if f := known[key]; f != nil {
			f.same = append(f.same, s)
			continue
		}
		known[key] = &failure{Step: s}
		all = append(all, known[key])
	}
	return all
}

// note says what a step achieved, or why it did not run.
func (r *run) note(s *timeline.Step) string { return ui.Reason(r.x, s.Step) }

// offset is a time as people compare it to others: how long after the start.
func (r *run) offset(at time.Time) string { return "+" + words.Brief(at.Sub(r.Start())) }

// title is what a webhook is called.
func title(l *timeline.Webhook) string {
	if l.Name == "" {
		return "a webhook that the API server did not name"
	}
	name := ui.Holder(l.Name, l.Name)
	if l.Namesake && l.Kind != "" && l.Name != runner.APIServer {
		name += " (" + l.Kind + ")"
	}
	return name
}

// holder is what a hold of a step is called.
func holder(h *runner.Hold) string { return title(&timeline.Webhook{Name: h.Webhook}) }

// ladder is how a webhook stood when the step was last told of it: all rungs
// below the one it was told to stand at were reached.
func ladder(w *runner.WebhookStatus) []timeline.Rung {
	now := timeline.Rung{Name: w.Rung, State: w.State, Cause: w.Cause, Explanation: w.Explanation, From: w.Since}
	if !slices.Contains(timeline.Ladder, w.Rung) {
		return []timeline.Rung{now}
	}
	return timeline.Rungs(now, w.Service, func(name string) timeline.Rung { return timeline.Rung{Name: name, State: timeline.Ready} })
}

// pair is a value with its name.
type pair struct{ Name, Value string }

// outputs are the values that a step found, as text.
func outputs(s *timeline.Step) []pair {
	var all []pair
	for _, name := range slices.Sorted(maps.Keys(s.Outputs)) {
		all = append(all, pair{name, words.Value(s.Outputs[name])})
	}
	return all
}

// glyphs stand beside the words of states.
var glyphs = map[runner.State]string{
	runner.StateSucceeded: "✓", runner.StateUnchanged: "=", runner.StateSkipped: "–", runner.StateFailed: "✗",
	runner.StateBlocked: "⊘", runner.StateCancelled: "■", runner.StateRunning: "▶", runner.StateHolding: "‖",
	runner.StateRetrying: "↻", runner.StatePending: "·",
}

// hookGlyphs are the same for hooks of charts.
var hookGlyphs = map[runner.HookState]string{
	runner.HookRunning: "▶", runner.HookCreated: "·", runner.HookSucceeded: "✓", runner.HookFailed: "✗",
}

// stands are the same for rungs.
var stands = map[string]string{timeline.Ready: "✓", timeline.Waiting: "…", timeline.Failed: "✗", timeline.Unknown: "?", "": "·"}
