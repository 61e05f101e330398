package sequence

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/hold"
)

// Item is one object to be sent.
type Item struct {
	Kind            schema.GroupVersionKind
	Namespace, Name string
	// Send makes the item's requests with the context given. It is called once.
	Send func(context.Context) error
	// Free reports whether what comes after may be sent while the item is held.
	Free func(webhook.Fault) bool
	// Judged reports whether a webhook that is called where the fault's webhook is
	// certainly judges the item. It is asked once for each such webhook. Without it
	// the item keeps no place: a deletion refers to nothing.
	Judged func(context.Context, webhook.Fault) bool

	// What follows belongs to the goroutine that calls the sequence's methods: the
	// number of the item's batch, what Judged said, by the fault's key, and the fault
	// for which an item is held that this one has to come after, or had to.
	batch  int
	judged map[string]bool
	after  webhook.Fault

	// What follows is guarded by the sequence's mutex.
	progress
}

// progress is how far an item is.
type progress struct {
	state state
	// stop ends the item's requests; nil before they are made.
	stop context.CancelCauseFunc
	// fault is why the item is, or was last, held; since when it is.
	fault webhook.Fault
	since time.Time
	// gaveUp is the error with which a hold ended in vain.
	gaveUp error
	err    error
}

type state int

const (
	waiting state = iota // not sent yet
	sent
	held
	done
)

func (s *Sequence) progress(it *Item) progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return it.progress
}

// start sends an item in a goroutine of its own, which ends with the sequence's
// context.
func (s *Sequence) start(it *Item) {
	ctx, stop := context.WithCancelCause(s.ctx)
	s.mu.Lock()
	it.state, it.stop = sent, stop
	s.mu.Unlock()
	s.sends.Go(func() {
		defer stop(nil)
		err := it.Send(hold.WithNotify(ctx, func(n hold.Notice) { s.note(it, n) }))
		s.mu.Lock()
		defer s.mu.Unlock()
		if errors.Is(context.Cause(ctx), ErrStopped) {
			err = nil // what stopped it is told
		}
		if err != nil && it.gaveUp != nil && !errors.Is(err, it.gaveUp) {
			err = kubeerr.Reword(err.Error(), err, it.gaveUp) // the client may have kept only its text
		}
		s.end(it, err)
		s.tell()
	})
}

// finish ends an item that was not sent.
func (s *Sequence) finish(it *Item, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(it, err)
}

// end takes down how an item ended; the mutex is held.
func (s *Sequence) end(it *Item, err error) {
	it.state, it.err = done, err
	if err != nil {
		s.failures++
	}
}

// note takes down what a hold tells of an item.
func (s *Sequence) note(it *Item, n hold.Notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch n.Event {
	case hold.Held:
		if it.state != held {
			it.since = time.Now()
		}
		it.state, it.fault = held, n.Fault
	case hold.Released:
		it.state, it.gaveUp = sent, n.Err
	case hold.Denied, hold.StatusChanged:
		return
	}
	s.tell()
}

// tell wakes who waits for a change; the mutex is held.
func (s *Sequence) tell() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
