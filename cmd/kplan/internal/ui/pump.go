package ui

import (
	"sync"
	"time"

	"github.com/kplan-dev/kplan/runner"
)

// drawer draws events. Only the goroutine of its pump calls it.
type drawer interface {
	// draw takes the next event.
	draw(runner.Event)
	// tick says how time passes, once a second.
	tick(now time.Time)
	// flush writes what was drawn.
	flush()
	// close draws the end, writes it, and returns what went wrong.
	close() error
}

// Queue carries events from the run's goroutine to another one, so that a terminal
// which does not read never holds up the run. It has no bound: no event may be lost,
// and a run has few.
type Queue struct {
	// Wake has room for one, which says that there may be something to take. Observe
	// and End write to it, and nobody closes it.
	Wake chan struct{}

	mu     sync.Mutex
	events []runner.Event
	ended  bool
}

// NewQueue returns an empty queue.
func NewQueue() *Queue { return &Queue{Wake: make(chan struct{}, 1)} }

// Observe implements runner.Observer.
func (q *Queue) Observe(e runner.Event) { q.put(false, e) }

// End says that no event follows.
func (q *Queue) End() { q.put(true) }

func (q *Queue) put(end bool, events ...runner.Event) {
	q.mu.Lock()
	q.events, q.ended = append(q.events, events...), q.ended || end
	q.mu.Unlock()
	select {
	case q.Wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Take returns the events that came since the last call, and whether none follows.
func (q *Queue) Take() (events []runner.Event, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	events, q.events = q.events, nil
	return events, q.ended
}

// pump carries events to the goroutine of a drawer.
type pump struct {
	*Queue
	done chan struct{} // closed by the pump's goroutine when it ends
	err  error         // valid after done
}

// newPump starts d's goroutine, which Close ends.
func newPump(d drawer) *pump {
	p := &pump{Queue: NewQueue(), done: make(chan struct{})}
	go p.run(d)
	return p
}

// Close implements Renderer: it waits until everything is drawn.
func (p *pump) Close() error {
	p.End()
	<-p.done
	return p.err
}

func (p *pump) run(d drawer) {
	defer close(p.done)
	clock := time.NewTicker(time.Second)
	defer clock.Stop()
	for {
		select {
		case <-p.Wake:
		case now := <-clock.C:
			d.tick(now)
		}
		events, ended := p.Take()
		for _, e := range events {
			d.draw(e)
		}
		if ended {
			p.err = d.close()
			return
		}
		d.flush()
	}
}
