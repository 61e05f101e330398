// Package sequence sends the objects of a Helm release in Helm's order, and
// keeps an object whose request is held for a webhook from holding back what
// that webhook needs.
//
// What comes after a held object is sent all the same, unless it cannot work
// without the object, or the same webhook judges it: then it keeps its place, for
// it may refer to the object.
//
// The package does not know Helm or what a request does, does not hold requests
// (webhook/hold does, and tells), and never sends anything twice.
package sequence

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/steps/internal/kube"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/hold"
)

const (
	// grace is how long requests of a batch may take after one of them became
	// held: an API server that calls a dead webhook answers after seconds.
	grace = time.Second
	// drain is how long requests on their way may go on after one failed.
	drain = 2 * time.Second
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
	// certainly judges the item.
	Judged func(context.Context, webhook.Fault) bool

	// batch is set before the item is in a sequence.
	batch int

	// What follows is guarded by the sequence's mutex.
	progress
}

// progress is how far an item is.
type progress struct {
	state state
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

// Sequence sends items. Its methods are called by one goroutine at a time.
type Sequence struct {
	// ctx ends the requests; stop does so with a cause. After a failure there are
	// new ones below parent.
	parent, ctx context.Context
	stop        context.CancelCauseFunc
	// sends counts the requests on their way; Close waits for them.
	sends sync.WaitGroup
	// items are those that may not be done yet, in order, and batches how many
	// batches were begun. Only the caller's goroutine uses them.
	items   []*Item
	batches int

	mu sync.Mutex // guards the items' progress
	// changed holds a value when an item's progress changed.
	changed chan struct{}
}

// New returns a sequence whose requests end with ctx. Close it.
func New(ctx context.Context) *Sequence {
	s := &Sequence{parent: ctx, changed: make(chan struct{}, 1)}
	s.ctx, s.stop = context.WithCancelCause(ctx)
	return s
}

// ErrStopped is the cause with which requests end because another one failed.
var ErrStopped = errors.New("stopped: another object failed")

// Close ends what is still on its way, and waits for it.
func (s *Sequence) Close() {
	s.stop(ErrStopped)
	s.sends.Wait()
}

// Send sends the items of a batch side by side, after those of the batches
// before. It returns when each was answered, or is left behind because it is
// held. Once an item failed, held ones are not waited for any more.
func (s *Sequence) Send(batch ...*Item) {
	s.batches++
	for _, it := range batch {
		it.batch = s.batches
	}
	s.items = append(s.items, batch...)
	s.advance(func(it *Item, f webhook.Fault) bool { return s.Failed() || it.Free(f) })
}

// Gather waits until every item was answered but those held ones that leave
// reports true of, and what has to come after these; nil leaves none. The error
// joins those of items that failed since the last Gather. When there are any, the
// rest has little time to be answered, and is ended then.
func (s *Sequence) Gather(leave func(*Item, webhook.Fault) bool) error {
	s.advance(func(it *Item, f webhook.Fault) bool { return s.Failed() || leave != nil && leave(it, f) })
	if !s.Failed() {
		return nil
	}
	stop := s.stop
	late := time.AfterFunc(drain, func() { stop(ErrStopped) })
	s.sends.Wait()
	late.Stop()
	stop(nil)
	s.ctx, s.stop = context.WithCancelCause(s.parent)
	var errs []error
	for _, it := range s.items {
		errs = append(errs, s.progress(it).err)
	}
	s.items = nil
	return errors.Join(errs...)
}

// Failed reports whether an item failed since the last Gather.
func (s *Sequence) Failed() bool {
	return slices.ContainsFunc(s.items, func(it *Item) bool { return s.progress(it).err != nil })
}

// Pending returns the items that are not done, in order.
func (s *Sequence) Pending() []*Item {
	var out []*Item
	for _, it := range s.items {
		if s.progress(it).state != done {
			out = append(out, it)
		}
	}
	return out
}

func (s *Sequence) progress(it *Item) progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return it.progress
}

// advance sends what may be sent, and waits for all but the held items that leave
// reports true of.
func (s *Sequence) advance(leave func(*Item, webhook.Fault) bool) {
	for {
		started, wait := s.step(leave)
		switch {
		case started:
			continue
		case wait == 0:
			return
		}
		select {
		case <-s.changed:
		case <-time.After(wait):
		}
	}
}

// forever stands for a wait that only a change ends.
const forever = 24 * time.Hour

// step starts the items of the first batch that has some to be sent. When it has
// started none, it returns how long to wait for a batch; 0 when none is to be
// waited for.
func (s *Sequence) step(leave func(*Item, webhook.Fault) bool) (started bool, wait time.Duration) {
	s.items = slices.DeleteFunc(s.items, func(it *Item) bool { p := s.progress(it); return p.state == done && p.err == nil })
	for i, end := 0, 0; i < len(s.items); i = end {
		for end = i; end < len(s.items) && s.items[end].batch == s.items[i].batch; end++ {
		}
		for _, it := range s.items[i:end] {
			if s.progress(it).state == waiting && !s.follows(it, s.items[:i]) {
				s.start(it)
				started = true
			}
		}
		if started {
			return true, 0
		}
		if wait := s.unsettled(s.items[i:end], leave); wait > 0 {
			return false, wait
		}
	}
	return false, 0
}

// unsettled returns how long to wait for a batch; 0 when it needs no more of it.
func (s *Sequence) unsettled(batch []*Item, leave func(*Item, webhook.Fault) bool) time.Duration {
	var first time.Time // one that is left became held
	flying := false
	for _, it := range batch {
		switch p := s.progress(it); p.state {
		case waiting, done: // what a waiting one follows is waited for, or left
		case sent:
			flying = true
		case held:
			if !leave(it, p.fault) {
				return forever
			}
			if first.IsZero() || p.since.Before(first) {
				first = p.since
			}
		}
	}
	switch {
	case !flying:
		return 0
	case first.IsZero():
		return forever
	}
	return max(0, time.Until(first.Add(grace)))
}

// follows reports whether an item has to come after one of those before it.
// Built-in kinds never do: a webhook that needs one of them may be waited for.
func (s *Sequence) follows(it *Item, before []*Item) bool {
	if !kube.Custom(it.Kind.Group) {
		return false
	}
	judged := map[string]bool{} // by webhooks of these keys, or not
	for _, b := range before {
		p := s.progress(b)
		if p.state == done {
			continue
		}
		if b.Kind.GroupKind() == it.Kind.GroupKind() {
			return true
		}
		if p.fault.Kind == "" {
			continue
		}
		key := p.fault.Key()
		if _, known := judged[key]; !known {
			judged[key] = it.Judged(s.ctx, p.fault)
		}
		if judged[key] {
			return true
		}
	}
	return false
}

// start sends an item in a goroutine of its own, which ends with the sequence's
// context.
func (s *Sequence) start(it *Item) {
	s.mu.Lock()
	it.state = sent
	s.mu.Unlock()
	ctx := hold.WithNotify(s.ctx, func(n hold.Notice) { s.note(it, n) })
	s.sends.Go(func() {
		err := it.Send(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		it.state = done
		switch {
		case err == nil:
		case it.gaveUp != nil && !errors.Is(err, it.gaveUp):
			it.err = &heldInVain{err, it.gaveUp}
		default:
			it.err = err
		}
		if errors.Is(context.Cause(ctx), ErrStopped) {
			it.err = nil // the error that ended it is told
		}
		s.tell()
	})
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
	case hold.Refused, hold.Stands:
		return
	}
	s.tell()
}

// tell wakes advance; the mutex is held.
func (s *Sequence) tell() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// heldInVain is the error of an item, with that of its hold, which the item's
// client may have kept only the text of.
type heldInVain struct{ err, hold error }

func (e *heldInVain) Error() string   { return e.err.Error() }
func (e *heldInVain) Unwrap() []error { return []error{e.err, e.hold} }
