package tui

import (
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/runner"
)

// sign is how a state looks: a sign beside its word. The help tells what it means.
type sign struct {
	role                 style.Role
	unicode, ascii, help string
}

var signs = map[runner.State]sign{
	runner.StatePending:   {style.Dim, "○", ".", "waits for steps that it needs, or for a free slot"},
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
