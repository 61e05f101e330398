package tui

import (
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/runner"
)

// sign is how a state looks: a sign beside its word.
type sign struct {
	role           style.Role
	unicode, ascii string
}

var signs = map[runner.State]sign{
	runner.StatePending:   {style.Dim, "○", "."},
	runner.StateRunning:   {style.Busy, "◐", "|"}, // see spin
	runner.StateHolding:   {style.Wait, "◉", "@"},
	runner.StateRetrying:  {style.Wait, "↻", "r"},
	runner.StateSucceeded: {style.Good, "✔", "+"},
	runner.StateUnchanged: {style.Good, "≡", "="},
	runner.StateSkipped:   {style.Dim, "»", ">"},
	runner.StateFailed:    {style.Bad, "✘", "x"},
	runner.StateBlocked:   {style.Stop, "⊘", "#"},
	runner.StateCancelled: {style.Stop, "■", "!"},
}

// rungSigns are those of `kplan webhooks`, by how a rung stands; "" is above the
// lowest one that was not reached.
var rungSigns = map[string]sign{
	timeline.Ready:   {style.Good, "●", "+"},
	timeline.Waiting: {style.Wait, "○", "o"},
	timeline.Failed:  {style.Bad, "✗", "x"},
	timeline.Unknown: {style.Dim, "?", "?"},
	"":               {style.Dim, "·", "."},
}

// spin is how fast the sign of what runs turns.
const spin = 250 * time.Millisecond

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
