package fleetview

import (
	"os"
	"sync/atomic"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/stage"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/runner"
)

// Config is what a Display works with.
type Config struct {
	Look
	// In and Out are the terminal.
	In, Out *os.File
	// Standby writes the summary when the display is closed, and goes on in lines when that
	// is before the end.
	Standby *Standby
	// Events returns what happened so far in a cluster's own run, for who looks at that. It
	// may be called from any goroutine; nil when nothing is known of them.
	Events func(cluster string) ([]runner.Event, error)
	// Order hands on an order, with Look.Orders. It is called from a goroutine of its own.
	Order func(Order) error
	// Stop stops the run as a signal does: the second call aborts it. With Look.Detached it
	// leaves the run. It returns at once.
	Stop func()
	// Stopped is closed when the run was told to stop; a display of such a run does not
	// stay.
	Stopped <-chan struct{}
	// Aborted is closed when it was told to stop at once.
	Aborted <-chan struct{}
	// Returned is called once the terminal is given back, if it is not nil. It may be called
	// twice.
	Returned func()
}

// Display is a Renderer that draws on a terminal and takes keys.
type Display struct {
	*stage.Stage[happened]
	screen *screen
}

// happened is an event of the fleet, or of one cluster's own run.
type happened struct {
	fleet   fleet.Event
	cluster string
	inner   runner.Event
}

// fleetOnly gives a Standby what happened to the fleet.
type fleetOnly struct{ *Standby }

// Observe implements stage.Standby.
func (f fleetOnly) Observe(h happened) {
	if h.cluster == "" {
		f.Standby.Observe(h.fleet)
	}
}

// Open takes over the terminal.
func Open(c Config) *Display {
	s := newScreen(c)
	at := c.stage()
	at.Left = func() { s.shown.Store(nil) }
	at.Parting = func() string {
		switch {
		case s.crash != nil || s.m.stops > 1 || s.m.ended():
			return ""
		case c.Detached:
			return "the display is closed and the run goes on"
		}
		return "the display is closed and the run goes on; ^C stops it"
	}
	return &Display{stage.Open(at, s), s}
}

func (c Config) stage() stage.Config[happened] {
	return stage.Config[happened]{
		In: c.In, Out: c.Out, Standby: fleetOnly{c.Standby}, Stay: c.Stay, Stopped: c.Stopped, Aborted: c.Aborted, Returned: c.Returned,
	}
}

// Observe implements Renderer.
func (d *Display) Observe(e fleet.Event) { d.Stage.Observe(happened{fleet: e}) }

// Inner shows an event of a cluster's own run to who looks at that; else it is dropped. It
// may be called from any goroutine, and never waits.
func (d *Display) Inner(cluster string, e runner.Event) {
	if name := d.screen.shown.Load(); name != nil && *name == cluster {
		d.Stage.Observe(happened{cluster: cluster, inner: e})
	}
}

// PlayOn shows a recorded run on a terminal until the user closes the display, or Stopped is
// closed.
func PlayOn(c Config, events []fleet.Event) error {
	c.Replay, c.Stay, c.Orders = true, true, false
	s := newScreen(c)
	s.player = &stage.Player[fleet.Event]{Events: events, At: func(e fleet.Event) time.Time { return e.Time }}
	s.play(time.Now())
	s.live.Store(true)
	return stage.Play(c.stage(), s, func() []happened {
		shown := make([]happened, len(s.player.Shown()))
		for i, e := range s.player.Shown() {
			shown[i] = happened{fleet: e}
		}
		return shown
	})
}

// shown is the name of the cluster whose own run is shown.
type shown = atomic.Pointer[string]
