package tui

import (
	"fmt"
	"path"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// shown are the steps that the filter lets through.
func (m *Model) shown() []*timeline.Step {
	if m.filter == "" {
		return m.run.Steps()
	}
	var all []*timeline.Step
	for _, s := range m.run.Steps() {
		if m.matches(s.Name, s.Kind, string(s.State), s.Cluster, strings.Join(s.Tags, " ")) {
			all = append(all, s)
		}
	}
	return all
}

// matches tells whether texts hold all words of the filter.
func (m *Model) matches(texts ...string) bool {
	text := strings.ToLower(strings.Join(texts, " "))
	for word := range strings.FieldsSeq(strings.ToLower(m.filter)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// focus is the item that a list which follows shows. It depends on how things
// stand alone, and not on what was shown before.
func (m *Model) focus() string {
	if m.view == viewHooks {
		return m.laneFocus()
	}
	return m.stepFocus()
}

// stepFocus is what is at work, else what went wrong, else what comes next.
func (m *Model) stepFocus() string {
	best, rank := "", 0
	for _, s := range m.shown() {
		r := 0
		switch s.State {
		case runner.StateHolding:
			r = 5
		case runner.StateRunning:
			r = 4
		case runner.StateRetrying:
			r = 3
		case runner.StateFailed:
			r = 2
		case runner.StatePending:
			r = 1
		default:
		}
		if r > rank {
			best, rank = s.Name, r
		}
	}
	return best
}

// fewFailed is how many steps that failed are opened by themselves. Of more, nobody
// reads all.
const fewFailed = 16

// opened tells whether what is known of a step is shown below it.
func (m *Model) opened(s *timeline.Step, failed int) bool {
	if open, said := m.lists[viewSteps].open[s.Name]; said {
		return open
	}
	return s.State.Active() || s.State == runner.StateRetrying || s.State == runner.StateFailed && failed <= fewFailed
}

func (m *Model) stepItems() []item {
	steps := m.shown()
	items := make([]item, len(steps))
	failed := len(m.run.Execution().Failed())
	for i, s := range steps {
		items[i] = item{key: s.Name, head: func(selected bool) string { return m.stepLine(s, selected) }}
		if m.opened(s, failed) {
			items[i].more = m.detail(s)
		}
	}
	return items
}

// selected is the step under the cursor; nil when there is none.
func (m *Model) selected() *timeline.Step {
	if m.view == viewLog && m.log != "" {
		return m.run.Step(m.log)
	}
	l := &m.lists[viewSteps]
	if m.view == viewTime {
		l = &m.lists[viewTime]
	}
	key := l.cursor
	if l.follow {
		key = m.stepFocus()
	}
	if s := m.run.Step(key); s != nil {
		return s
	}
	if steps := m.shown(); len(steps) > 0 {
		return steps[0]
	}
	return nil
}

// nameWidth is the width of the column of names.
func (m *Model) nameWidth() int {
	return min(max(m.names, 6), max(m.cols()/3, 12), 48)
}

// cursor is the sign of the item that keys work on.
func (m *Model) cursor(l *style.Line, selected bool) *style.Line {
	if selected {
		return l.Put(style.Accent, m.Sign("▌", ">")).To(2)
	}
	return l.To(2)
}

// stepLine is the line of a step: sign and word of its state, its name, kind,
// attempt and time, and what there is to say.
func (m *Model) stepLine(s *timeline.Step, selected bool) string {
	l := m.cursor(m.Line(m.cols()), selected)
	role, g := m.sign(s.State)
	l.Put(role, g+" ").Cell(role, string(s.State), 9)
	name := style.Plain
	switch {
	case selected:
		name = style.Strong
	case s.State == runner.StatePending || s.State == runner.StateSkipped:
		name = style.Dim
	}
	if m.cols() < 60 {
		l.Cell(name, words.Line(s.Name), min(m.nameWidth()+6, m.cols()-21)).Number(style.Plain, m.took(s), 6)
		return l.String()
	}
	l.Cell(name, words.Line(s.Name), m.nameWidth()+1)
	if m.many && m.cols() >= 100 {
		l.Cell(style.Dim, words.Line(s.Cluster), 12)
	}
	if m.cols() >= 72 {
		l.Cell(style.Dim, s.Kind, 7)
	}
	attempt := ""
	if s.Attempt > 0 {
		attempt = fmt.Sprintf("%d/%d", s.Attempt, s.Step.Attempts)
	}
	l.Number(style.Dim, attempt, 4).Number(style.Plain, m.took(s), 6).Put(style.Plain, " ")
	noteRole, note := m.note(s)
	if s.State == runner.StateRunning && m.opened(s, 0) { // it says so below
		note = ""
	}
	return l.Put(noteRole, note).String()
}

// took is how long a step took, or takes by now.
func (m *Model) took(s *timeline.Step) string {
	if s.Started.IsZero() {
		return ""
	}
	return words.Brief(s.Elapsed(m.now))
}

// note says in a few words what there is to say of a step.
func (m *Model) note(s *timeline.Step) (style.Role, string) {
	switch s.State {
	case runner.StatePending:
		return style.Dim, m.waitsFor(s)
	case runner.StateRunning:
		return style.Plain, words.Line(progress(s))
	case runner.StateHolding:
		return style.Wait, words.Line(m.holds(s))
	case runner.StateRetrying:
		return style.Wait, words.Line("next attempt within " + words.Brief(s.Delay-m.now.Sub(s.Since)))
	case runner.StateFailed:
		return style.Bad, words.Line(s.Error)
	case runner.StateBlocked:
		if why := m.run.Execution().WhyBlocked(s.Name); len(why) > 0 {
			return style.Stop, words.Line("needs " + strings.Join(why, ", ") + ", which failed")
		}
	case runner.StateSucceeded, runner.StateUnchanged:
		var parts []string
		if s.Revision > 0 {
			parts = append(parts, fmt.Sprintf("revision %d", s.Revision))
		}
		if held := s.HoldTime(m.now); held > 0 {
			parts = append(parts, "held "+words.Brief(held))
		}
		return style.Dim, words.Line(words.Join(": ", strings.Join(parts, ", "), s.Message))
	case runner.StateSkipped, runner.StateCancelled:
	}
	return style.Dim, words.Line(words.Join(": ", s.Message, s.Error))
}

// waitsFor says what a pending step waits for.
func (m *Model) waitsFor(s *timeline.Step) string {
	var needs []string
	for _, name := range s.Needs {
		if need := m.run.Step(name); need != nil && !need.State.Terminal() {
			needs = append(needs, words.Line(name))
		}
	}
	switch {
	case len(needs) > 0:
		return "waits for " + strings.Join(needs, ", ")
	case s.Finally:
		return "waits for all other steps"
	}
	return "waits for a free slot"
}

// progress says how far a step is, as its lines in plain mode do.
func progress(s *timeline.Step) string {
	text := s.Message
	if s.Object != "" && !strings.Contains(text, path.Base(s.Object)) {
		text = words.Join(": ", s.Object, text)
	}
	if n := fmt.Sprintf("%d/%d", s.Done, s.Total); s.Total > 0 && !strings.Contains(text, n) {
		text = words.Join(" ", n, text)
	}
	return text
}

// holds says how many requests of a step wait for whom.
func (m *Model) holds(s *timeline.Step) string {
	var by []string
	for _, h := range s.Holds {
		if h.Waiting > 0 {
			by = append(by, hookName(h.Webhook))
		}
	}
	return words.Count(s.Held(), "request") + " held by " + strings.Join(by, ", ")
}

// laneName is that of a webhook, with its kind where another one has the name too.
func laneName(l *timeline.Webhook) string {
	if l.Namesake && l.Kind != "" {
		return hookName(l.Name) + " (" + l.Kind + ")"
	}
	return hookName(l.Name)
}

// hookName says who holds a request, for people.
func hookName(name string) string {
	switch name {
	case "":
		return "a webhook"
	case runner.APIServer:
		return "the " + name
	}
	return name
}
