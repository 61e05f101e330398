package tui

import (
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/pen"
	"github.com/kplan-dev/kplan/runner"
)

// sign is how a state looks: a sign beside its word.
type sign struct {
	ink            pen.Ink
	unicode, ascii string
}

var signs = map[runner.State]sign{
	runner.StatePending:   {pen.Dim, "○", "."},
	runner.StateRunning:   {pen.Busy, "◐", "|"}, // see spin
	runner.StateHolding:   {pen.Wait, "◉", "@"},
	runner.StateRetrying:  {pen.Wait, "↻", "r"},
	runner.StateSucceeded: {pen.Good, "✔", "+"},
	runner.StateUnchanged: {pen.Good, "≡", "="},
	runner.StateSkipped:   {pen.Dim, "»", ">"},
	runner.StateFailed:    {pen.Bad, "✘", "x"},
	runner.StateBlocked:   {pen.Stop, "⊘", "#"},
	runner.StateCancelled: {pen.Stop, "■", "!"},
}

// rungSigns are those of `kplan webhooks`, by how a rung stands; "" is above the
// lowest one that was not reached.
var rungSigns = map[string]sign{
	timeline.Ready:   {pen.Good, "●", "+"},
	timeline.Waiting: {pen.Wait, "○", "o"},
	timeline.Failed:  {pen.Bad, "✗", "x"},
	timeline.Unknown: {pen.Dim, "?", "?"},
	"":               {pen.Dim, "·", "."},
}

// spin is how fast the sign of what runs turns.
const spin = 250 * time.Millisecond

func (m *Model) sign(s runner.State) (pen.Ink, string) {
	g := signs[s]
	if s == runner.StateRunning {
		turn := int(m.now.UnixMilli()/spin.Milliseconds()) & 3
		return g.ink, m.pen.Sign([]string{"◐", "◓", "◑", "◒"}[turn], []string{"|", "/", "-", `\`}[turn])
	}
	return g.ink, m.pen.Sign(g.unicode, g.ascii)
}

func (m *Model) rungSign(state string) (pen.Ink, string) {
	g, ok := rungSigns[state]
	if !ok {
		g = rungSigns[timeline.Unknown]
	}
	return g.ink, m.pen.Sign(g.unicode, g.ascii)
}
