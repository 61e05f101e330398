package tui

import (
	"cmp"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/stage"
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

var arrows = map[string]string{"up": "Up", "down": "Down", "left": "Left", "right": "Right"}

// key returns how a key is written on this terminal.
func (s *state) key(name string) string { return KeyName(s.Theme, name) }

// KeyName returns how a key is written, by the name that bubbletea gives it.
func KeyName(t style.Theme, name string) string {
	if ascii := arrows[name]; ascii != "" && !t.Unicode {
		return ascii
	}
	return cmp.Or(keyNames[name], name)
}

// help is the pane that tells of all keys, and what the signs mean.
type help struct {
	*state
	position
	open bool
}

func (h *help) draw(height int) []string {
	lines := h.lines()
	top := min(h.top, max(len(lines)-height, 0))
	return lines[top:min(top+height, len(lines))]
}

func (h *help) scroll(m motion, height int) {
	lines := len(h.lines())
	switch m.unit {
	case byPage:
		m.by *= height
	case toEnd:
		m.by *= lines
	case byRow, byWheel:
	}
	most := max(lines-height, 0)
	h.top = min(max(min(h.top, most)+m.by, 0), most)
}

func (h *help) lines() []string {
	const keys = 16
	var lines []string
	put := func(role style.Role, key, text string) {
		for _, part := range words.Wrap(text, h.width-keys-3) {
			lines = append(lines, h.Line(h.width).To(2).Cell(role, key, keys-1).Put(style.Plain, part).String())
			key = ""
		}
	}
	for _, b := range bindings() {
		if b.help == "" || b.when.ever != nil && !b.when.ever(h.Options) {
			continue
		}
		names := make([]string, len(b.keys))
		for i, k := range b.keys {
			names[i] = h.key(k)
		}
		put(style.Accent, strings.Join(names, " "), b.help)
	}
	put(style.Accent, "mouse", "the wheel scrolls, a click puts the cursor, a second one opens")
	lines = append(lines, "")
	for _, s := range runner.States {
		role, g := h.sign(s)
		put(role, g+" "+string(s), signs[s].help)
	}
	lines = append(lines, "")
	for _, state := range []string{timeline.Ready, timeline.Waiting, timeline.Failed, timeline.Unknown, ""} {
		role, g := h.rungSign(state)
		put(role, g, rungSigns[state].help)
	}
	put(style.Dim, "", "a webhook climbs its ladder: "+strings.Join(timeline.Ladder, ", "))
	return lines
}

// sign is how a state looks: a sign beside its word. The help tells what it means.
type sign struct {
	role                 style.Role
	unicode, ascii, help string
}

var signs = map[runner.State]sign{
	runner.StatePending:   {style.Dim, "○", ".", "waits for steps that it needs, for its group, or for a free slot"},
	runner.StateRunning:   {style.Busy, "◐", "|", "at work"}, // see spin
	runner.StateHolding:   {style.Wait, "◉", "@", "at work; a webhook cannot answer yet and holds requests"},
	runner.StateRetrying:  {style.Wait, "↻", "r", "failed, and waits for its next attempt"},
	runner.StateSucceeded: {style.Good, "✔", "+", "done"},
	runner.StateUnchanged: {style.Good, "≡", "=", "done, and there was nothing to do"},
	runner.StateSkipped:   {style.Dim, "»", ">", "left out on purpose"},
	runner.StateFailed:    {style.Bad, "✘", "x", "failed for good"},
	runner.StateBlocked:   {style.Stop, "⊘", "#", "not run: a step that it needs failed"},
	runner.StateCancelled: {style.Stop, "■", "!", "stopped with the run, or not begun"},
}

// rungSigns are those of `kplan webhooks`, by how a rung stands; "" is above the
// lowest one that was not reached.
var rungSigns = map[string]sign{
	timeline.Ready:   {style.Good, "●", "+", "the webhook reached this rung"},
	timeline.Waiting: {style.Wait, "○", "o", "the rung that it waits for"},
	timeline.Failed:  {style.Bad, "✗", "x", "the rung fails, and does not heal by waiting"},
	timeline.Unknown: {style.Dim, "?", "?", "not known how it stands"},
	"":               {style.Dim, "·", ".", "not reached, for a lower one is not"},
}

// spin is how fast the sign of what runs turns.
const spin = stage.Spin

func (s *state) sign(state runner.State) (style.Role, string) {
	g := signs[state]
	if state == runner.StateRunning {
		turn := int(s.now.UnixMilli()/spin.Milliseconds()) & 3
		return g.role, s.Sign([]string{"◐", "◓", "◑", "◒"}[turn], []string{"|", "/", "-", `\`}[turn])
	}
	return g.role, s.Sign(g.unicode, g.ascii)
}

func (s *state) rungSign(state string) (style.Role, string) {
	g, ok := rungSigns[state]
	if !ok {
		g = rungSigns[timeline.Unknown]
	}
	return g.role, s.Sign(g.unicode, g.ascii)
}
