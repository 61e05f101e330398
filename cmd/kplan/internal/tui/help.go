package tui

import (
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// keyNames are how keys are written for people, where that is not how bubbletea
// names them.
var keyNames = map[string]string{
	"up": "↑", "down": "↓", "left": "←", "right": "→", "pgup": "PgUp", "pgdown": "PgDn", "home": "Home", "end": "End",
	"enter": "Enter", " ": "Space", "esc": "Esc", "tab": "Tab", "shift+tab": "Shift+Tab",
	"ctrl+c": "^C", "ctrl+l": "^L", "ctrl+b": "^B", "ctrl+f": "^F",
}

func (m *Model) key(name string) string {
	if !m.Theme.Unicode {
		if ascii := map[string]string{"up": "Up", "down": "Down", "left": "Left", "right": "Right"}[name]; ascii != "" {
			return ascii
		}
	}
	if text := keyNames[name]; text != "" {
		return text
	}
	return name
}

// keyName is the first key of a binding.
func (m *Model) keyName(b binding) string {
	if b.short == "move" {
		return m.Sign("↑↓", "jk")
	}
	return m.key(b.keys[0])
}

// hints are the bindings that the footer names: first what only now makes sense.
func (m *Model) hints() []binding {
	var first, rest []binding
	for _, b := range bindings() {
		if b.short == "" || b.when != nil && !b.when(m) || m.idle(b) {
			continue
		}
		switch b.short {
		case "stop", "help", "retry", "end run":
			first = append(first, b)
		default:
			rest = append(rest, b)
		}
	}
	return append(first, rest...)
}

// idle tells whether a key would do nothing just now.
func (m *Model) idle(b binding) bool {
	s := m.selected()
	switch b.short {
	case "retry":
		return s == nil || s.State != runner.StateFailed && s.State != runner.StateRetrying
	case "skip":
		return s == nil || s.Kind != "wait" && s.Kind != "webhook" || s.State.Terminal()
	case "quit":
		return m.live() && m.width < 100
	case "open":
		return m.view == viewLog
	}
	return false
}

// helpPage is the part of the help that is shown.
func (m *Model) helpPage(height int) []string {
	lines := m.helpLines()
	top := min(m.helpAt, max(len(lines)-height, 0))
	return lines[top:min(top+height, len(lines))]
}

// scrollHelp moves the help by lines, as far as there are any.
func (m *Model) scrollHelp(by int) {
	most := max(len(m.helpLines())-m.bodyHeight(), 0)
	m.helpAt = min(max(min(m.helpAt, most)+by, 0), most)
}

// helpLines tell of all keys, and what the signs mean.
func (m *Model) helpLines() []string {
	const keys = 16
	var lines []string
	put := func(role style.Role, key, text string) {
		for _, part := range words.Wrap(text, m.width-keys-3) {
			lines = append(lines, m.Line(m.width).To(2).Cell(role, key, keys-1).Put(style.Plain, part).String())
			key = ""
		}
	}
	for _, b := range bindings() {
		if b.help == "" || b.when != nil && !m.ever(b) {
			continue
		}
		names := make([]string, len(b.keys))
		for i, k := range b.keys {
			names[i] = m.key(k)
		}
		put(style.Accent, strings.Join(names, " "), b.help)
	}
	put(style.Accent, "mouse", "the wheel scrolls, a click puts the cursor, a second one opens")
	lines = append(lines, "")
	for _, s := range runner.States {
		role, g := m.sign(s)
		put(role, g+" "+string(s), stateHelp[s])
	}
	lines = append(lines, "")
	for _, state := range []string{timeline.Ready, timeline.Waiting, timeline.Failed, timeline.Unknown, ""} {
		role, g := m.rungSign(state)
		put(role, g, rungHelp[state])
	}
	put(style.Dim, "", "a webhook climbs its ladder: "+strings.Join(timeline.Ladder, ", "))
	return lines
}

// ever tells whether a key can be of use in this display, if not now.
func (m *Model) ever(b binding) bool {
	switch b.short {
	case "faster", "slower":
		return m.Replay
	case "retry", "skip", "end run":
		return m.Orders
	case "pause":
		return m.Replay != strings.Contains(b.help, "the run goes on")
	case "stop":
		return !m.Replay
	}
	return true
}

var stateHelp = map[runner.State]string{
	runner.StateSucceeded: "done",
	runner.StateUnchanged: "done, and there was nothing to do",
	runner.StateSkipped:   "left out on purpose",
	runner.StateFailed:    "failed for good",
	runner.StateBlocked:   "not run: a step that it needs failed",
	runner.StateCancelled: "stopped with the run, or not begun",
	runner.StateRunning:   "at work",
	runner.StateHolding:   "at work; a webhook cannot answer yet and holds requests",
	runner.StateRetrying:  "failed, and waits for its next attempt",
	runner.StatePending:   "waits for steps that it needs, or for a free slot",
}

var rungHelp = map[string]string{
	timeline.Ready:   "the webhook reached this rung",
	timeline.Waiting: "the rung that it waits for",
	timeline.Failed:  "the rung fails, and does not heal by waiting",
	timeline.Unknown: "not known how it stands",
	"":               "not reached, for a lower one is not",
}
