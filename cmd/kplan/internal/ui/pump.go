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
	// flush writes what was drawn.
	flush()
	// close draws the end, writes it, and returns what went wrong.
	close() error
}

// ticker is a drawer that wants to know how time passes, once a second.
type ticker interface{ tick(now time.Time) }

// pump carries events from the run's goroutine to that of a drawer, so that a
// terminal which does not read never holds up the run. The queue between them
// has no bound: no event may be lost, and a run has few.
type pump struct {
	mu     sync.Mutex
	queue  []runner.Event
	closed bool

	wake chan struct{} // has room for one; written by Observe and Close
	done chan struct{} // closed by the pump's goroutine when it ends
	err  error         // valid after done
}

var _ Renderer = (*pump)(nil)

// newPump starts d's goroutine, which Close ends.
func newPump(d drawer) *pump {
	p := &pump{wake: make(chan struct{}, 1), done: make(chan struct{})}
	go p.run(d)
	return p
}

// Observe implements runner.Observer.
func (p *pump) Observe(e runner.Event) { p.put(e, false) }

// Close implements Renderer: it waits until everything is drawn.
func (p *pump) Close() error {
	p.put(runner.Event{}, true)
	<-p.done
	return p.err
}

func (p *pump) put(e runner.Event, last bool) {
	p.mu.Lock()
	if last {
		p.closed = true
	} else if !p.closed {
		p.queue = append(p.queue, e)
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default: // it will look anyway
	}
}

func (p *pump) take() ([]runner.Event, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	events := p.queue
	p.queue = nil
	return events, p.closed
}

func (p *pump) run(d drawer) {
	defer close(p.done)
	var ticks <-chan time.Time
	t, ticking := d.(ticker)
	if ticking {
		clock := time.NewTicker(time.Second)
		defer clock.Stop()
		ticks = clock.C
	}
	for {
		select {
		case <-p.wake:
		case now := <-ticks:
			t.tick(now)
		}
		events, closed := p.take()
		for _, e := range events {
			d.draw(e)
		}
		if closed {
			p.err = d.close()
			return
		}
		d.flush()
	}
}
