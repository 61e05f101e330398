// Package pump carries events from whoever makes them to whoever draws them, so that an
// output that is not read never holds up the work.
//
// It does not know what the events are, and draws nothing.
package pump

import (
	"sync"
	"time"
)

// Drawer draws events. Only the goroutine of its pump calls it.
type Drawer[E any] interface {
	// Draw takes the next event.
	Draw(E)
	// Tick says how time passes, once a second.
	Tick(now time.Time)
	// Flush writes what was drawn.
	Flush()
	// Close draws the end, writes it, and returns what went wrong.
	Close() error
}

// Queue carries events to another goroutine. It has no bound: no event may be lost, and a
// run has few.
type Queue[E any] struct {
	// Wake has room for one, which says that there may be something to take. Observe
	// and End write to it, and nobody closes it.
	Wake chan struct{}

	mu     sync.Mutex
	events []E
	ended  bool
}

// NewQueue returns an empty queue.
func NewQueue[E any]() *Queue[E] { return &Queue[E]{Wake: make(chan struct{}, 1)} }

// Observe implements runner.Observer, where E is its event.
func (q *Queue[E]) Observe(e E) { q.put(false, e) }

// End says that no event follows.
func (q *Queue[E]) End() { q.put(true) }

func (q *Queue[E]) put(end bool, events ...E) {
	q.mu.Lock()
	q.events, q.ended = append(q.events, events...), q.ended || end
	q.mu.Unlock()
	select {
	case q.Wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Take returns the events that came since the last call, and whether none follows.
func (q *Queue[E]) Take() (events []E, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	events, q.events = q.events, nil
	return events, q.ended
}

// Pump carries events to the goroutine of a drawer.
type Pump[E any] struct {
	*Queue[E]
	done chan struct{} // closed by the pump's goroutine when it ends
	err  error         // valid after done
}

// Start starts a drawer's goroutine, which Close ends.
func Start[E any](d Drawer[E]) *Pump[E] {
	p := &Pump[E]{Queue: NewQueue[E](), done: make(chan struct{})}
	go p.run(d)
	return p
}

// Close waits until everything is drawn, and returns what went wrong.
func (p *Pump[E]) Close() error {
	p.End()
	<-p.done
	return p.err
}

func (p *Pump[E]) run(d Drawer[E]) {
	defer close(p.done)
	clock := time.NewTicker(time.Second)
	defer clock.Stop()
	for {
		select {
		case <-p.Wake:
		case now := <-clock.C:
			d.Tick(now)
		}
		events, ended := p.Take()
		for _, e := range events {
			d.Draw(e)
		}
		if ended {
			p.err = d.Close()
			return
		}
		d.Flush()
	}
}

// Play draws recorded events at once, as they would have been drawn while their time
// passed; at is when an event was.
func Play[E any](d Drawer[E], at func(E) time.Time, events []E) error {
	var tick time.Time
	if len(events) > 0 {
		tick = at(events[0]).Add(time.Second)
	}
	for _, e := range events {
		for ; tick.Before(at(e)); tick = tick.Add(time.Second) {
			d.Tick(tick)
		}
		d.Draw(e)
		d.Flush()
	}
	return d.Close()
}
