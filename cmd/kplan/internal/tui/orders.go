package tui

import (
	"fmt"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

func (m *Model) retry() Act {
	s := m.target(func(s *timeline.Step) bool {
		return s.State == runner.StateFailed || s.State == runner.StateRetrying
	})
	if s == nil {
		m.say(style.Wait, "r is for a step that failed or waits for its next attempt")
		return Act{}
	}
	return Act{Do: DoOrder, Order: runner.Order{Verb: runner.OrderRetry, Step: s.Name}}
}

func (m *Model) skip() Act {
	s := m.target(func(s *timeline.Step) bool {
		return (s.Kind == "wait" || s.Kind == "webhook") && !s.State.Terminal()
	})
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

func (m *Model) endRun() Act {
	return Act{Do: DoOrder, Order: runner.Order{Verb: runner.OrderEnd}}
}

// target is the step under the cursor if it is fit; while the cursor follows, it
// may be the only one that is.
func (m *Model) target(fit func(*timeline.Step) bool) *timeline.Step {
	s := m.selected()
	if s != nil && fit(s) {
		return s
	}
	if m.view == viewLog && m.log != "" || m.view != viewLog && m.view != viewHooks && !m.lists[m.view].follow {
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

// busy says that an order was not taken.
func (m *Model) busy() { m.say(style.Wait, "not ordered: the run has not taken the last orders yet") }
