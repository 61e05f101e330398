package tui

import (
	"fmt"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// stepList is the view of all steps, with what is known of each below it.
type stepList struct{ list }

// wide is the width from which the list leaves room for a log beside it.
const wide = 150

func (v *stepList) cols() int {
	if v.width >= wide {
		return v.width * 3 / 5
	}
	return v.width
}

// fewFailed is how many steps that failed are opened by themselves. Of more, nobody
// reads all.
const fewFailed = 16

// opened reports whether what is known of a step is shown below it.
func (v *stepList) opened(s *timeline.Step, failed int) bool {
	if open, said := v.open[s.Name]; said {
		return open
	}
	return s.State.Active() || s.State == runner.StateRetrying || s.State == runner.StateFailed && failed <= fewFailed
}

func (v *stepList) items() []item {
	steps := v.steps()
	items := make([]item, len(steps))
	failed := len(v.run.Execution().Failed())
	for i, s := range steps {
		items[i] = item{key: s.Name, head: func(selected bool) string { return v.line(s, selected) }}
		if v.opened(s, failed) {
			_, asked := v.open[s.Name]
			items[i].more = v.stepDetail(s, v.cols(), asked)
		}
	}
	return items
}

// line returns the line of a step: sign and word of its state, its name, kind,
// attempt and time, and what there is to say.
func (v *stepList) line(s *timeline.Step, selected bool) string {
	cols := v.cols()
	l, name := v.head(cols, selected, s.State == runner.StatePending || s.State == runner.StateSkipped)
	role, sign := v.sign(s.State)
	l.Put(role, sign+" ").Cell(role, string(s.State), 9)
	if cols < 60 {
		return l.Cell(name, words.Line(s.Name), min(v.nameWidth(cols)+6, cols-21)).Number(style.Plain, v.took(s), 6).String()
	}
	l.Cell(name, words.Line(s.Name), v.nameWidth(cols)+1)
	if v.many && cols >= 100 {
		l.Cell(style.Dim, words.Line(s.Cluster), 12)
	}
	if cols >= 72 {
		l.Cell(style.Dim, s.Kind, 7)
	}
	attempt := ""
	if s.Attempt > 0 {
		attempt = fmt.Sprintf("%d/%d", s.Attempt, s.Step.Attempts)
	}
	l.Number(style.Dim, attempt, 4).Number(style.Plain, v.took(s), 6).Put(style.Plain, " ")
	if s.State == runner.StateRunning && v.opened(s, 0) { // it says so below
		return l.String()
	}
	return l.Put(v.note(s)).String()
}

func (s *state) took(step *timeline.Step) string {
	if step.Started.IsZero() {
		return ""
	}
	return words.Brief(step.Elapsed(s.now))
}

// note says in a few words what there is to say of a step.
func (s *state) note(step *timeline.Step) (style.Role, string) {
	role, text := style.Dim, words.Join(": ", step.Message, step.Error)
	switch step.State {
	case runner.StatePending:
		text = s.waitsFor(step)
	case runner.StateRunning:
		role, text = style.Plain, ui.Progress(step.Step)
	case runner.StateHolding:
		role, text = style.Wait, holds(step)
	case runner.StateRetrying:
		role, text = style.Wait, "next attempt within "+words.Brief(step.Delay-s.now.Sub(step.Since))
	case runner.StateFailed:
		role, text = style.Bad, step.Error
	case runner.StateBlocked:
		if why := ui.Reason(s.run.Execution(), step.Step); why != step.Message {
			role, text = style.Stop, why
		}
	case runner.StateSucceeded, runner.StateUnchanged:
		text = words.Join(": ", ui.Gains(step.Step, s.now), step.Message)
	case runner.StateSkipped, runner.StateCancelled:
	}
	return role, words.Line(text)
}

// waitsFor says what a pending step waits for.
func (s *state) waitsFor(step *timeline.Step) string {
	var needs []string
	for _, name := range step.Needs {
		if need := s.run.Step(name); need != nil && !need.State.Terminal() {
			needs = append(needs, name)
		}
	}
	switch {
	case len(needs) > 0:
		return "waits for " + strings.Join(needs, ", ")
	case step.WaitsFor != "":
		return fmt.Sprintf("waits for group %s (step %s)", step.ConcurrencyGroup, s.run.Execution().Holder(step.Step))
	case step.Finally:
		return "waits for all other steps"
	}
	return "waits for a free slot"
}

// holds says how many requests of a step wait for whom.
func holds(s *timeline.Step) string {
	var by []string
	for _, h := range s.Holds {
		if h.Waiting > 0 {
			by = append(by, ui.Holder(h.Webhook, h.Webhook))
		}
	}
	return words.Count(s.Held(), "request") + " held by " + strings.Join(by, ", ")
}
