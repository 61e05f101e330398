package ui

import (
	"io"
	"time"

	"github.com/kplan-dev/kplan/runner"
)

// Play writes a recorded run at once, as a renderer of the mode would have written
// it while its time passed.
func Play(out io.Writer, mode Mode, o Options, events []runner.Event) error {
	return play(newDrawer(out, mode, o), events)
}

// play draws events as their time passes.
func play(d drawer, events []runner.Event) error {
	var tick time.Time
	if len(events) > 0 {
		tick = events[0].Time.Add(time.Second)
	}
	for _, e := range events {
		for ; tick.Before(e.Time); tick = tick.Add(time.Second) {
			if t, ok := d.(ticker); ok {
				t.tick(tick)
			}
		}
		d.draw(e)
		d.flush()
	}
	return d.close()
}
