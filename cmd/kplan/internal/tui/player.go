package tui

import (
	"time"

	"github.com/kplan-dev/kplan/runner"
)

// player plays recorded events to a model, as their time passes.
type player struct {
	events []runner.Event
	next   int       // the first that was not played
	at     time.Time // how far the recorded time has come
	wall   time.Time // when that was
}

// play goes on to the time now of the clock on the wall.
func (p *player) play(m *Model, now time.Time) {
	if len(p.events) == 0 || m.paused {
		p.wall = now
		return
	}
	switch {
	case p.at.IsZero():
		p.at = p.events[0].Time
	case m.Speed > 0:
		p.at = p.at.Add(time.Duration(float64(now.Sub(p.wall)) * m.Speed))
	}
	p.wall = now
	from := p.next
	for p.next < len(p.events) && (m.Speed == 0 || !p.events[p.next].Time.After(p.at)) {
		p.next++
	}
	if m.Speed == 0 {
		p.at = p.events[len(p.events)-1].Time
	}
	m.Tick(p.at, p.events[from:p.next]...)
}
