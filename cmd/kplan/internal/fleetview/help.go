package fleetview

import (
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
)

// helpLines tell of all keys, and what the signs mean.
func (m *model) helpLines() []string {
	const keys = 16
	var lines []string
	put := func(role style.Role, key, text string) {
		for _, part := range words.Wrap(text, m.width-keys-3) {
			lines = append(lines, m.Line(m.width).To(2).Cell(role, key, keys-1).Put(style.Plain, part).String())
			key = ""
		}
	}
	for _, b := range bindings() {
		if b.help == "" || b.when.ever != nil && !b.when.ever(m.Look) {
			continue
		}
		if m.Detached && b.short == "stop" {
			continue
		}
		names := make([]string, len(b.keys))
		for i, k := range b.keys {
			names[i] = tui.KeyName(m.Theme, k)
		}
		put(style.Accent, strings.Join(names, " "), b.help)
	}
	put(style.Accent, "mouse", "the wheel scrolls, a click puts the cursor, a second one opens")
	lines = append(lines, "")
	for _, s := range fleet.States {
		role, sign := m.sign(s)
		put(role, sign+" "+stateWord(s), signs[s].help)
	}
	return lines
}

// scrollHelp takes a key that moves the help, and reports whether it is one.
func (m *model) scrollHelp(key string) bool {
	page := max(m.height-4, 1)
	by := map[string]int{"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "b": -page, "pgdown": page, " ": page, "home": -1 << 20, "g": -1 << 20, "end": 1 << 20, "G": 1 << 20}[key]
	if key == "q" || key == "enter" {
		m.help = false
		return true
	}
	m.helpTop = min(max(m.helpTop+by, 0), max(len(m.helpLines())-page, 0))
	return by != 0
}
