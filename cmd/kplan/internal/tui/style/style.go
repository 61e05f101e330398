// Package style writes lines of text for a terminal: with a style for each part, cut
// to a width, and in plain ASCII where the terminal shows nothing else.
//
// It knows nothing of runs, asks nothing of the terminal, and of colours it uses but
// those eight that every theme of a terminal sets: it need not know whether that is
// dark.
package style

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
)

// Role is what a part of a line is, which says how it looks.
type Role uint8

// The roles. What they say is always said by a word or a sign as well.
const (
	Plain Role = iota
	Dim
	Strong
	// Accent marks what the keys work on.
	Accent
	// Busy, Wait, Good, Bad and Stop are those of states.
	Busy
	Wait
	Good
	Bad
	Stop
	// Mark is the path that the run's end depends on.
	Mark

	roles
)

// colours are how roles look where colours are allowed.
var colours = [roles]string{
	Dim:    sgr(ansi.AttrFaint),
	Strong: sgr(ansi.AttrBold),
	Accent: sgr(ansi.AttrBold, ansi.AttrCyanForegroundColor),
	Busy:   sgr(ansi.AttrCyanForegroundColor),
	Wait:   sgr(ansi.AttrYellowForegroundColor),
	Good:   sgr(ansi.AttrGreenForegroundColor),
	Bad:    sgr(ansi.AttrBold, ansi.AttrRedForegroundColor),
	Stop:   sgr(ansi.AttrMagentaForegroundColor),
	Mark:   sgr(ansi.AttrBold, ansi.AttrMagentaForegroundColor),
}

func sgr(attrs ...ansi.Attr) string { return ansi.NewStyle(attrs...).String() }

// Theme is how a display looks. The zero value writes ASCII without colours.
type Theme struct {
	// Colour and Unicode allow colours, and signs beyond ASCII. Text of others is not
	// changed by them.
	Colour, Unicode bool
}

// Paint returns s in the style of a role.
func (t Theme) Paint(role Role, s string) string {
	if !t.Colour || colours[role] == "" || s == "" {
		return s
	}
	return colours[role] + s + "\x1b[0m"
}

// Sign returns the one of two signs that the terminal can show.
func (t Theme) Sign(unicode, ascii string) string {
	if t.Unicode {
		return unicode
	}
	return ascii
}

// Cut returns s cut to width cells. What was cut ends in an ellipsis.
func (t Theme) Cut(s string, width int) string { return words.Cut(s, width, t.Sign("…", "~")) }

// Bar returns a bar of width cells, filled in proportion to how much is done.
func (t Theme) Bar(done, total, width int) (full, empty string) {
	if width <= 0 || total <= 0 {
		return "", ""
	}
	n := min(max(done*width/total, 0), width)
	return strings.Repeat(t.Sign("█", "#"), n), strings.Repeat(t.Sign("░", "."), width-n)
}
