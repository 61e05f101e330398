package ui

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
)

// Mode is how a run is shown.
type Mode string

// The modes.
const (
	// Auto is the best mode for where the output goes; see Environment.
	Auto Mode = "auto"
	// TTY draws on a terminal, and takes keys. This package does not draw it.
	TTY Mode = "tty"
	// Plain writes one line for each change, and a table at the end.
	Plain Mode = "plain"
	// JSON writes every event as one line of JSON.
	JSON Mode = "json"
	// GitHub is Plain for the log of GitHub Actions: with a group of lines for each
	// step, and annotations at the plan's lines.
	GitHub Mode = "github"
	// Quiet writes nothing but that the run was told to stop.
	Quiet Mode = "quiet"
)

// Modes are all modes, for help texts and completion.
var Modes = []Mode{Auto, TTY, Plain, JSON, GitHub, Quiet}

// ParseMode reads a mode.
func ParseMode(s string) (Mode, error) {
	if slices.Contains(Modes, Mode(s)) {
		return Mode(s), nil
	}
	return "", fmt.Errorf("there is no progress mode %q, only %s", s, strings.Join(words.Names(Modes), ", "))
}

// Reports reports whether a renderer of this mode shows by itself why a run failed.
func (m Mode) Reports() bool { return m != Quiet }

// Environment is what a mode is chosen by.
type Environment struct {
	// Stdin and Stderr say whether these are terminals. Drawing takes both: keys
	// come from the one, and the other is drawn on.
	Stdin, Stderr bool
	// Term, CI and Actions are the environment variables TERM, CI and
	// GITHUB_ACTIONS. Nearly every CI system sets CI; some that have it off say so.
	Term, CI, Actions string
}

// ErrNoTerminal says that there is no terminal to draw on.
var ErrNoTerminal = errors.New("there is no terminal on stdin and stderr that can be drawn on")

// Choose returns the mode that is meant by m: Auto becomes GitHub in a workflow of
// GitHub Actions, TTY on a terminal that can be drawn on and is nobody's CI, and
// else Plain. Any other mode stays; TTY where it cannot be drawn is ErrNoTerminal.
func (s Environment) Choose(m Mode) (Mode, error) {
	switch {
	case m == TTY && !s.drawable():
		return m, ErrNoTerminal
	case m != Auto:
		return m, nil
	case isSet(s.Actions):
		return GitHub, nil
	case s.drawable() && !isSet(s.CI):
		return TTY, nil
	}
	return Plain, nil
}

func (s Environment) drawable() bool { return s.Stdin && s.Stderr && s.Term != "dumb" }

// isSet reports whether an environment variable says yes.
func isSet(v string) bool {
	switch strings.ToLower(v) {
	case "", "0", "false", "no", "off":
		return false
	}
	return true
}
