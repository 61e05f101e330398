// Package pen writes lines of text for a terminal: with a style for each part, cut
// to a width, and in plain ASCII where the terminal shows nothing else.
//
// It knows nothing of runs, and of colours it uses but the sixteen that every
// theme of a terminal sets, so that it needs not know whether that is dark.
package pen

import (
	"io"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
)

// Ink is how a part of a line looks.
type Ink uint8

// The inks. What they say is always said by a word or a sign as well.
const (
	Plain Ink = iota
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

	inks
)

// Pen holds the styles. The zero value writes ASCII without styles.
type Pen struct {
	// Unicode allows signs beyond ASCII. Text of others is not changed by it.
	Unicode bool
	on      [inks]string
}

// New makes a pen.
func New(colour, unicode bool) *Pen {
	p := &Pen{Unicode: unicode}
	if !colour {
		return p
	}
	// Nothing is asked of the terminal: an answer could mix with what is typed.
	r := lipgloss.NewRenderer(io.Discard)
	r.SetColorProfile(termenv.ANSI)
	r.SetHasDarkBackground(true)
	ansi := func(c string) lipgloss.Style { return r.NewStyle().Foreground(lipgloss.Color(c)) }
	for ink, style := range map[Ink]lipgloss.Style{
		Dim: r.NewStyle().Faint(true), Strong: r.NewStyle().Bold(true), Accent: ansi("6").Bold(true),
		Busy: ansi("6"), Wait: ansi("3"), Good: ansi("2"), Bad: ansi("1").Bold(true), Stop: ansi("5"), Mark: ansi("5").Bold(true),
	} {
		p.on[ink], _, _ = strings.Cut(style.Render("x"), "x")
	}
	return p
}

const off = "\x1b[0m"

// Paint puts s into an ink.
func (p *Pen) Paint(ink Ink, s string) string {
	if p.on[ink] == "" || s == "" {
		return s
	}
	return p.on[ink] + s + off
}

// Sign gives the one of two signs that the terminal can show.
func (p *Pen) Sign(unicode, ascii string) string {
	if p.Unicode {
		return unicode
	}
	return ascii
}
