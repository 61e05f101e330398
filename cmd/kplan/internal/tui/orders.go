package tui

import (
	"fmt"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

func (m *Model) retry() Act {
	s := m.target(retryable)
	if s == nil {
		m.say(style.Wait, "r is for a step that failed or waits for its next attempt")
		return Act{}
	}
	return Act{Do: DoOrder, Order: runner.Order{Verb: runner.OrderRetry, Step: s.Name}}
}

func (m *Model) skip() Act {
	s := m.target(skippable)
	if s == nil {
		m.say(style.Wait, "s is for a wait or webhook step that is not over")
		return Act{}
	}
	m.ask = &question{
		text: fmt.Sprintf("skip the wait of %s? what needs it goes on", words.Line(s.Name)),
		yes:  Act{Do: DoOrder, Order: runner.Order{Verb: runner.OrderSkip, Step: s.Name}},
	}
	return Act{}
}

// stop stops the run, and says what that means: the run's own event follows.
func (m *Model) stop() Act {
	m.stops++
	m.filter.typing = false
	if m.stops == 1 {
		m.say(style.Stop, "stopping: nothing new starts, requests in flight may end; ^C again aborts at once")
	}
	return Act{Do: DoStop}
}

func retryable(s *timeline.Step) bool {
	return s.State == runner.StateFailed || s.State == runner.StateRetrying
}

func skippable(s *timeline.Step) bool {
	return (s.Kind == "wait" || s.Kind == "webhook") && !s.State.Terminal()
}

// target returns the step under the cursor if it is fit; while the cursor follows, it
// may be the only one that is.
func (m *Model) target(fit func(*timeline.Step) bool) *timeline.Step {
	s := m.selected()
	if s != nil && fit(s) {
		return s
	}
	if m.view == viewLog && m.log.pinned != "" || (m.view == viewSteps || m.view == viewTime) && !m.panes[m.view].where().follow {
		return nil
	}
	var only *timeline.Step
	for _, s := range m.run.Steps() {
		if fit(s) {
			if only != nil {
				return nil
			}
			only = s
		}
	}
	return only
}
