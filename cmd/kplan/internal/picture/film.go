// Package picture draws recorded runs as the display shows them: moving pictures in
// SVG, whose text is text.
//
// A Film is what a terminal showed and how long; it is made of events alone, so that
// a record gives the same picture on every machine. SVG writes one, without scripts:
// CSS moves it, and it stands still for readers who ask for less motion.
//
// It runs nothing and knows no terminal; package tui draws the frames.
package picture

import (
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui"
	"github.com/kplan-dev/kplan/runner"
)

// Frame is what a terminal shows for a while: lines with colours, as escape sequences.
type Frame struct {
	Lines []string
	For   time.Duration
}

// Film is what a terminal of so many columns and rows shows.
type Film struct {
	Columns, Rows int
	Frames        []Frame
	// Still is the frame that readers see who ask for less motion.
	Still int
}

// Take says how a run is filmed.
type Take struct {
	// Columns and Rows are the size of the terminal, in cells.
	Columns, Rows int
	// Command was typed to begin the run.
	Command string
	// Version is kplan's, for the header of the display.
	Version string
}

const (
	every   = 250 * time.Millisecond // between frames of the run
	typed   = 1500 * time.Millisecond
	lasting = 3 * time.Second // each view of the end
)

// Run films a run from its first event to its last: the command, the steps while they
// run, and at the end the timeline as well. It needs one event or more.
func (t Take) Run(events []runner.Event) Film {
	film := Film{Columns: t.Columns, Rows: t.Rows}
	film.add(typed, "\x1b[2m$\x1b[0m "+t.Command)
	m := tui.NewModel(tui.Options{Colour: true, Unicode: true, Version: t.Version, Orders: true})
	m.Resize(t.Columns, t.Rows)
	first, last := events[0].Time, events[len(events)-1].Time
	next, longest := 0, time.Duration(0)
	var held time.Time
	for now := first; ; now = now.Add(every) {
		from := next
		for next < len(events) && !events[next].Time.After(now) {
			switch e := events[next]; {
			case e.Type == runner.TypeState && e.State == runner.StateHolding:
				held = e.Time
			case e.Type == runner.TypeState:
				held = time.Time{}
			}
			next++
		}
		m.Tick(now, events[from:next]...)
		if now.After(last) {
			break
		}
		film.add(every, strings.Split(m.View(), "\n")...)
		// The most is told of a hold when it is nearly over.
		if d := now.Sub(held); !held.IsZero() && d > longest {
			longest, film.Still = d, len(film.Frames)-1
		}
	}
	film.add(lasting, strings.Split(m.View(), "\n")...)
	m.Press("2")
	film.add(lasting, strings.Split(m.View(), "\n")...)
	if longest == 0 {
		film.Still = len(film.Frames) - 1
	}
	return film
}

// add appends a frame; one that looks like the last makes that one longer.
func (f *Film) add(d time.Duration, lines ...string) {
	if n := len(f.Frames); n > 0 && strings.Join(f.Frames[n-1].Lines, "\n") == strings.Join(lines, "\n") {
		f.Frames[n-1].For += d
		return
	}
	f.Frames = append(f.Frames, Frame{Lines: lines, For: d})
}

// length is how long it takes.
func (f *Film) length() time.Duration {
	var sum time.Duration
	for _, frame := range f.Frames {
		sum += frame.For
	}
	return sum
}
