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
	*state
	cols  int
	lines []string
}

const (
	indent = 4
	labels = 11 // the longest is the rung configured
)

// begin begins a line, up to where its text begins.
func (b *block) begin(label string) *style.Line {
	l := b.Line(b.cols).To(2).Put(style.Dim, b.Sign("│", "|")).To(indent)
	return l.Cell(style.Dim, label, labels-1)
}

func (b *block) add(l *style.Line) { b.lines = append(b.lines, l.String()) }

// text writes a text of others, on as many lines as it takes.
func (b *block) text(label string, role style.Role, text string) {
	if text = words.Clean(text); strings.TrimSpace(text) == "" {
		return
	}
	for _, line := range words.Wrap(text, max(b.cols-indent-labels-1, 10)) {
		b.add(b.begin(label).Put(role, line))
		label = ""
	}
}

// stepDetail returns what is known of a step, in so many columns; more if that was asked
// for.
func (s *state) stepDetail(step *timeline.Step, cols int, asked bool) []string {
	b := &block{state: s, cols: cols}
	if asked {
		b.facts(step)
	}
	switch {
	case step.State.Active():
		b.objects(step)
	case step.State == runner.StatePending:
		b.text("waits", style.Plain, strings.TrimPrefix(s.waitsFor(step), "waits "))
	case step.State.Good():
		b.text("result", style.Plain, step.Message)
	}
	if step.Error != "" {
		b.text("cause", style.Bad, step.Error)
		b.text("hint", style.Accent, step.Hint)
		if step.State == runner.StateFailed && step.Message != step.Error {
			b.text("note", style.Dim, step.Message)
		}
	}
	b.hooks(step)
	b.next(step)
	if asked || !step.State.Good() {
		for _, hook := range s.webhooksOf(step) {
			b.webhook(hook, step)
		}
	}
	if asked {
		b.attempts(step)
	}
	b.log(step)
	return b.lines
}

// facts says what the plan has of a step.
func (b *block) facts(s *timeline.Step) {
	kind, within := "", ""
	if b.cols < 72 {
		kind = s.Kind
	}
	if s.TimeoutSeconds > 0 {
		within = "within " + words.Brief(time.Duration(s.TimeoutSeconds*float64(time.Second)))
	}
	b.text("step", style.Dim, words.Join("; ", kind, words.Prefixed("on ", s.Cluster),
		words.Prefixed("needs ", strings.Join(s.Needs, ", ")), words.Prefixed("group ", s.ConcurrencyGroup), words.Prefixed("tags ", strings.Join(s.Tags, ", ")), within))
	for _, g := range b.run.Execution().Guards() {
		if g.Step == s.Name {
			b.text("guarded", style.Dim, g.String())
		}
	}
}

// objects says how far a step at work is.
func (b *block) objects(s *timeline.Step) {
	text := words.Line(ui.Progress(s.Step))
	if hook, is := strings.CutPrefix(text, "hook "); is {
		if len(s.Hooks) == 0 { // of a run that an older kplan recorded
			b.text("Helm hook", style.Plain, hook)
		}
		return
	}
	if s.Total == 0 {
		b.text("now", style.Plain, text)
		return
	}
	full, empty := b.Bar(s.Done, s.Total, 10)
	n := fmt.Sprintf("%d/%d", s.Done, s.Total)
	l := b.begin("objects").Put(style.Good, full).Put(style.Dim, empty).Put(style.Plain, " "+n)
	text = strings.TrimPrefix(text, n+" ")
	if words.Width(text)+2 <= l.Room() {
		b.add(l.Put(style.Plain, "  "+text))
		return
	}
	b.add(l)
	b.text("", style.Plain, text)
}

// mostHooks is how many hooks of a step are shown, the last ones.
const mostHooks = 20

// hooks shows the hooks of a step's chart, each on a line of its own.
func (b *block) hooks(s *timeline.Step) {
	hooks, label := s.Hooks, "hooks"
	if n := len(hooks) - mostHooks; n > 0 {
		b.text(label, style.Dim, fmt.Sprintf("%d before these", n))
		hooks, label = hooks[n:], ""
	}
	for _, h := range hooks {
		role, sign := b.sign(hookStates[h.State])
		if h.State == runner.HookCreated {
			role, sign = style.Dim, b.Sign("·", ".")
		}
		b.add(b.begin(label).Put(role, sign+" ").Put(style.Plain, words.Line(ui.Hook(h, b.now))))
		if h.State == runner.HookFailed && !strings.Contains(s.Error, h.Error) {
			b.text("", style.Bad, h.Error)
		}
		label = ""
	}
}

// hookStates are the states of steps whose signs those of hooks have.
var hookStates = map[runner.HookState]runner.State{
	runner.HookRunning: runner.StateRunning, runner.HookSucceeded: runner.StateSucceeded, runner.HookFailed: runner.StateFailed,
}

// next says what the user can do about a step that failed.
func (b *block) next(s *timeline.Step) {
	x, text := b.run.Execution(), ""
	switch {
	case s.State == runner.StateRetrying && b.Orders:
		text = "r begins the next attempt now"
	case s.State != runner.StateFailed:
	case b.Ended() || !b.Orders:
		text = "mend the cause, then go on: kplan run PLAN" + from(x)
	case x.Paused():
		text = "mend the cause, then press r for another attempt; e ends the run"
	default:
		text = "mend the cause, then press r for another attempt while the run goes on"
	}
	b.text("next", style.Strong, text)
}

// from returns the flags that run what failed anew, all of it: each leaves out what
// does not need its step.
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

func (b *block) attempts(s *timeline.Step) {
	for _, a := range s.Attempts {
		if a.Error != "" && a.State != runner.StateFailed {
			b.text(fmt.Sprintf("try %d", a.N), style.Dim, fmt.Sprintf("failed after %s: %s", words.Brief(a.To.Sub(a.From)), a.Error))
		}
	}
}

// tells reports whether a log is shown below its step, see ui.Logs.
func (s *state) tells(step *timeline.Step, l timeline.Log) bool {
	switch {
	case l.Object == "", s.Logs == ui.LogsAll:
		return true
	case s.Logs == ui.LogsNone:
		return false
	}
	return step.State == runner.StateFailed || s.stalls.Stalled(step.Name, l.Of, s.now)
}

// log writes the end of the step's log.
func (b *block) log(s *timeline.Step) {
	most := 1
	switch {
	case s.State == runner.StateFailed:
		most = 3
	case !s.State.Active():
		return
	}
	var last []string
	for i := len(s.Logs) - 1; i >= 0 && len(last) < most; i-- {
		if b.tells(s, s.Logs[i]) {
			last = append(strings.Split(strings.TrimRight(words.Clean(s.Logs[i].Text), "\n "), "\n"), last...)
		}
	}
	label := "log"
	for _, text := range last[max(len(last)-most, 0):] {
		b.add(b.begin(label).Put(style.Dim, text))
		label = ""
	}
}
