package tui

import (
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// state is what all panes draw from: the run as it is at a time, the filter, and the
// terminal. The Model changes it, panes only read it.
type state struct {
	Options
	style.Theme

	run    *timeline.Timeline
	stalls ui.Stalls
	now    time.Time
	names  int  // width of the longest step's name
	many   bool // there are several clusters
	filter filter

	width, height int
}

func (s *state) apply(e runner.Event) {
	s.run.Apply(e)
	s.stalls.Observe(e)
	if e.Type != runner.TypePlan {
		return
	}
	s.names = 0
	for _, step := range e.Steps {
		s.names = max(s.names, words.Width(words.Line(step.Name)))
		s.many = s.many || step.Cluster != e.Steps[0].Cluster
	}
}

// Ended reports whether the run has ended, as far as it is shown.
func (s *state) Ended() bool { return s.run.Ended() }

// low is the height under which the header has no line for the plan alone.
const low = 16

func (s *state) headerHeight() int {
	if s.height < low {
		return 2
	}
	return 3
}

func (s *state) bodyHeight() int { return max(s.height-s.headerHeight()-1, 1) }

func (s *state) message(text string) []string {
	return []string{"", s.Line(s.width).Put(style.Dim, "  "+text).String()}
}

// steps returns the steps that the filter lets through.
func (s *state) steps() []*timeline.Step {
	if s.filter.text == "" {
		return s.run.Steps()
	}
	var all []*timeline.Step
	for _, step := range s.run.Steps() {
		if s.filter.matches(step.Name, step.Kind, string(step.State), step.Cluster, strings.Join(step.Tags, " ")) {
			all = append(all, step)
		}
	}
	return all
}

// step returns the step of a name, or else the first one; nil when there is none.
func (s *state) step(name string) *timeline.Step {
	if step := s.run.Step(name); step != nil {
		return step
	}
	if steps := s.steps(); len(steps) > 0 {
		return steps[0]
	}
	return nil
}

// urgency says which step is shown while a list follows: the first one that is at
// work, else went wrong, else comes next.
var urgency = map[runner.State]int{
	runner.StateHolding: 5, runner.StateRunning: 4, runner.StateRetrying: 3, runner.StateFailed: 2, runner.StatePending: 1,
}

func (s *state) focus() string {
	best, rank := "", 0
	for _, step := range s.steps() {
		if r := urgency[step.State]; r > rank {
			best, rank = step.Name, r
		}
	}
	return best
}

// nameWidth returns the width of the column of names beside so many cells.
func (s *state) nameWidth(cols int) int { return min(max(s.names, 6), max(cols/3, 12), 48) }

// filter is what the user wants to see only.
type filter struct {
	text   string
	typing bool
}

// matches reports whether texts have all words of the filter.
func (f filter) matches(texts ...string) bool {
	text := strings.ToLower(strings.Join(texts, " "))
	for word := range strings.FieldsSeq(strings.ToLower(f.text)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// press takes a key while the filter is typed.
func (f *filter) press(key string) {
	switch r := []rune(f.text); key {
	case "enter":
		f.typing = false
	case "esc":
		*f = filter{}
	case "backspace", "ctrl+h":
		f.text = string(r[:max(len(r)-1, 0)])
	case "ctrl+u", "ctrl+w":
		f.text = ""
	default:
		if len([]rune(key)) == 1 {
			f.text += words.Clean(key)
		}
	}
}
