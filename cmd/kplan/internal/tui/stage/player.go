package stage

import "time"

// Player plays recorded events as their time passed.
type Player[E any] struct {
	// Events are all of them, and At is when one was.
	Events []E
	At     func(E) time.Time

	next int       // the first that was not played
	at   time.Time // how far the recorded time has come
	wall time.Time // when that was
}

// Play goes on to the time now of the clock on the wall, so many times as fast as it was; 0
// is all at once. It returns what time it is in the record, and what happened until then.
func (p *Player[E]) Play(now time.Time, speed float64) (at time.Time, events []E) {
	switch {
	case p.at.IsZero():
		p.at = p.At(p.Events[0])
	case speed > 0:
		p.at = p.at.Add(time.Duration(float64(now.Sub(p.wall)) * speed))
	}
	p.wall = now
	from := p.next
	for p.next < len(p.Events) && (speed == 0 || !p.At(p.Events[p.next]).After(p.at)) {
		p.next++
	}
	if speed == 0 {
		p.at = p.At(p.Events[len(p.Events)-1])
	}
	return p.at, p.Events[from:p.next]
}

// Rest lets the record stand still until the time now of the clock on the wall.
func (p *Player[E]) Rest(now time.Time) { p.wall = now }

// Shown are the events that were played.
func (p *Player[E]) Shown() []E { return p.Events[:p.next] }
