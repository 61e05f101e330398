package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// block collects the lines below an item: a label, and text beside it that is
// wrapped and never cut.
type block struct {
	m     *Model
	lines []string
}

const (
	indent = 4
	labels = 11 // the longest is the rung configured
)

// wide is how many cells texts beside labels may take.
func (b *block) wide() int { return max(b.m.cols()-indent-labels-1, 10) }

// begin is a line up to where its text begins.
func (b *block) begin(label string) *style.Line {
	l := b.m.Line(b.m.cols()).To(2).Put(style.Dim, b.m.Sign("│", "|")).To(indent)
	return l.Cell(style.Dim, label, labels-1)
}

func (b *block) add(l *style.Line) { b.lines = append(b.lines, l.String()) }

// text writes a text of others, on as many lines as it takes.
func (b *block) text(label string, role style.Role, text string) {
	if text = words.Clean(text); strings.TrimSpace(text) == "" {
		return
	}
	for _, line := range words.Wrap(text, b.wide()) {
		b.add(b.begin(label).Put(role, line))
		label = ""
	}
}

// detail is what is known of a step, below its line.
func (m *Model) detail(s *timeline.Step) []string {
	b := &block{m: m}
	_, asked := m.lists[viewSteps].open[s.Name]
	if asked {
		b.facts(s)
	}
	switch {
	case s.State.Active():
		b.objects(s)
	case s.State == runner.StatePending:
		b.text("waits", style.Plain, strings.TrimPrefix(m.waitsFor(s), "waits "))
	case s.State.Good():
		b.text("result", style.Plain, s.Message)
	}
	b.fault(s)
	b.next(s)
	for _, lane := range m.lanesOf(s) {
		if asked || !s.State.Good() {
			b.lane(lane, s)
		}
	}
	if asked {
		b.attempts(s)
	}
	b.tail(s)
	return b.lines
}

// facts are what the plan says of a step.
func (b *block) facts(s *timeline.Step) {
	var parts []string
	if b.m.cols() < 72 {
		parts = append(parts, s.Kind)
	}
	if s.Cluster != "" {
		parts = append(parts, "on "+s.Cluster)
	}
	if len(s.Needs) > 0 {
		parts = append(parts, "needs "+strings.Join(s.Needs, ", "))
	}
	if len(s.Tags) > 0 {
		parts = append(parts, "tags "+strings.Join(s.Tags, ", "))
	}
	if s.TimeoutSeconds > 0 {
		parts = append(parts, "within "+words.Brief(time.Duration(s.TimeoutSeconds*float64(time.Second))))
	}
	b.text("step", style.Dim, strings.Join(parts, "; "))
	for _, g := range b.m.run.Execution().Guards() {
		if g.Step == s.Name {
			b.text("guarded", style.Dim, g.String())
		}
	}
}

// objects says how far a step at work is.
func (b *block) objects(s *timeline.Step) {
	text := words.Line(progress(s))
	if hook, is := strings.CutPrefix(text, "hook "); is {
		b.text("Helm hook", style.Plain, hook)
		return
	}
	if s.Total == 0 {
		b.text("now", style.Plain, text)
		return
	}
	l := b.begin("objects")
	full, empty := b.m.Bar(s.Done, s.Total, 10)
	l.Put(style.Good, full).Put(style.Dim, empty).Put(style.Plain, fmt.Sprintf(" %d/%d", s.Done, s.Total))
	text = strings.TrimPrefix(text, fmt.Sprintf("%d/%d ", s.Done, s.Total))
	if words.Width(text)+2 <= l.Room() {
		b.add(l.Put(style.Plain, "  "+text))
		return
	}
	b.add(l)
	b.text("", style.Plain, text)
}

// fault says what went wrong, and what it means.
func (b *block) fault(s *timeline.Step) {
	if s.Error == "" {
		return
	}
	b.text("cause", style.Bad, s.Error)
	b.text("hint", style.Accent, s.Hint)
	if s.State == runner.StateFailed && s.Message != "" && s.Message != s.Error {
		b.text("note", style.Dim, s.Message)
	}
}

// next says what the user can do about a step that failed.
func (b *block) next(s *timeline.Step) {
	x := b.m.run.Execution()
	switch {
	case s.State == runner.StateRetrying && b.m.Orders:
		b.text("next", style.Strong, "r begins the next attempt now")
	case s.State != runner.StateFailed:
	case b.m.run.Ended() || !b.m.Orders:
		b.text("next", style.Strong, "mend the cause, then go on: kplan run PLAN"+from(x))
	case x.Paused():
		b.text("next", style.Strong, "mend the cause, then press r for another attempt; e ends the run")
	default:
		b.text("next", style.Strong, "mend the cause, then press r for another attempt while the run goes on")
	}
}

// from are the flags that run what failed anew, all of it: each leaves out what does
// not need its step.
func from(x *runner.Execution) string {
	var flags strings.Builder
	for _, s := range x.Failed() {
		name := s.Name
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-/") != "" {
			name = "'" + name + "'" // [ means something to shells
		}
		flags.WriteString(" --from " + name)
	}
	return flags.String()
}

// attempts tells of those that failed.
func (b *block) attempts(s *timeline.Step) {
	for _, a := range s.Attempts {
		if a.Error == "" || a.State == runner.StateFailed {
			continue
		}
		b.text(fmt.Sprintf("try %d", a.N), style.Dim, fmt.Sprintf("failed after %s: %s", words.Brief(a.To.Sub(a.From)), a.Error))
	}
}

// tells tells whether a log is shown below its step, see ui.Logs.
func (m *Model) tells(s *timeline.Step, l timeline.Log) bool {
	switch {
	case l.Object == "", m.Logs == ui.LogsAll:
		return true
	case m.Logs == ui.LogsNone:
		return false
	}
	return s.State == runner.StateFailed || m.stalls.Stalled(s.Name, l.Of, m.now)
}

// tail is the end of the step's log.
func (b *block) tail(s *timeline.Step) {
	lines := 1
	switch {
	case s.State == runner.StateFailed:
		lines = 3
	case !s.State.Active() || len(s.Logs) == 0:
		return
	}
	var last []string
	for i := len(s.Logs) - 1; i >= 0 && len(last) < lines; i-- {
		if !b.m.tells(s, s.Logs[i]) {
			continue
		}
		text := strings.Split(strings.TrimRight(words.Clean(s.Logs[i].Text), "\n "), "\n")
		for j := len(text) - 1; j >= 0 && len(last) < lines; j-- {
			last = append([]string{text[j]}, last...)
		}
	}
	for i, text := range last {
		label := ""
		if i == 0 {
			label = "log"
		}
		b.add(b.begin(label).Put(style.Dim, text))
	}
}
