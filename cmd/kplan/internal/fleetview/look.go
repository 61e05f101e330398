package fleetview

import (
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/stage"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/fleet"
)

// sign is how a state looks: a sign beside its word. The help tells what it means.
type sign struct {
	role                 style.Role
	unicode, ascii, help string
}

var signs = map[fleet.State]sign{
	fleet.Pending:    {style.Dim, "○", ".", "waits for its wave, or for a free slot in it"},
	fleet.Running:    {style.Busy, "◐", "|", "the plan is at work"},
	fleet.Holding:    {style.Wait, "◉", "@", "at work; a webhook cannot answer yet and holds requests"},
	fleet.Succeeded:  {style.Good, "✔", "+", "the plan is done"},
	fleet.Unchanged:  {style.Good, "≡", "=", "done, and there was nothing to do"},
	fleet.Failed:     {style.Bad, "✘", "x", "a step failed, or the cluster is out of reach"},
	fleet.Cancelled:  {style.Stop, "■", "!", "stopped at work"},
	fleet.NotStarted: {style.Stop, "⊘", "#", "not begun: the run was stopped before"},
}

var waveSigns = map[fleet.WaveState]sign{
	fleet.WavePending:    {style.Dim, "○", ".", ""},
	fleet.WaveApproval:   {style.Wait, "?", "?", ""},
	fleet.WaveRunning:    {style.Busy, "◐", "|", ""},
	fleet.WaveSoaking:    {style.Wait, "~", "~", ""},
	fleet.WaveSucceeded:  {style.Good, "✔", "+", ""},
	fleet.WaveFailed:     {style.Bad, "✘", "x", ""},
	fleet.WaveNotStarted: {style.Stop, "⊘", "#", ""},
}

// sign is the sign of a state; that of what runs stands still, for there are many.
func (m *model) sign(s fleet.State) (style.Role, string) {
	g, known := signs[s]
	if !known {
		return style.Dim, "?"
	}
	return g.role, m.Sign(g.unicode, g.ascii)
}

// spinning is the sign of a state beside its word: that of what runs turns.
func (m *model) spinning(s fleet.State) (style.Role, string) {
	if s != fleet.Running {
		return m.sign(s)
	}
	turn := int(m.now.UnixMilli()/stage.Spin.Milliseconds()) & 3
	return style.Busy, m.Sign([]string{"◐", "◓", "◑", "◒"}[turn], []string{"|", "/", "-", `\`}[turn])
}

func (m *model) waveSign(s fleet.WaveState) (style.Role, string) {
	g, known := waveSigns[s]
	if !known {
		return style.Dim, "?"
	}
	return g.role, m.Sign(g.unicode, g.ascii)
}
