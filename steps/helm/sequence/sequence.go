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

	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/webhook"
)

const (
	// grace is how long requests of a batch may take after one of them became
	// held: an API server that calls a dead webhook answers after seconds.
	grace = time.Second
	// drain is how long requests on their way may go on after one failed.
	drain = 2 * time.Second
	// inFlight is how many items may be on their way at once; those that are held do
	// not count.
	inFlight = 16
	// forever stands for a wait that only a change ends.
	forever = 24 * time.Hour
)

// ErrStopped is the cause with which requests end because another one failed, or
// because their objects are not wanted any more.
var ErrStopped = errors.New("stopped: another object failed")

// Sequence sends items. Its methods are called by one goroutine at a time.
type Sequence struct {
	parent context.Context
	// ctx ends the requests; stop does so with a cause. Both are made with the
	// first request, and anew after a failure.
	ctx  context.Context
	stop context.CancelCauseFunc
	// sends counts the requests on their way; Close waits for them.
	sends sync.WaitGroup
	// items are those that may not be done yet, in order; batches is how many
	// batches there were, and reached the last one that was begun.
	items            []*Item
	batches, reached int

	mu       sync.Mutex // guards the items' progress, and failures, how many failed
	failures int
	// changed holds a value when an item's progress changed.
	changed chan struct{}
}

// New returns a sequence whose requests end with ctx. Close it once it was used.
func New(ctx context.Context) *Sequence {
	return &Sequence{parent: ctx, changed: make(chan struct{}, 1)}
}

// Close ends what is still on its way, and waits for it.
func (s *Sequence) Close() {
	if s.stop != nil {
		s.stop(ErrStopped)
	}
	s.sends.Wait()
}

// Send sends the items of a batch side by side, a few at once, after those of the
// batches before. It returns when each was answered, or is left behind: because it is
// held and free, or has to come after one that is. Once an item failed, none is
// waited for any more.
func (s *Sequence) Send(batch ...*Item) {
	s.batches++
	for _, it := range batch {
		it.batch = s.batches
	}
	s.items = append(s.items, batch...)
	s.advance(func(it *Item, f webhook.Fault) bool { return s.Failed() || it.Free(f) })
}

// Gather waits until every item was answered but those that leave reports true
// of; nil leaves none. Leave is asked about held items, and about those that have
// to come after one, with the fault for which that is held. The error joins those
// of items that failed since the last Gather. When there are any, the rest has
// little time to be answered, and is ended then.
func (s *Sequence) Gather(leave func(*Item, webhook.Fault) bool) error {
	s.advance(func(it *Item, f webhook.Fault) bool { return s.Failed() || leave != nil && leave(it, f) })
	if !s.Failed() {
		return nil
	}
	if s.stop != nil { // nothing was sent of what failed
		stop := s.stop
		late := time.AfterFunc(drain, func() { stop(ErrStopped) })
		s.sends.Wait()
		late.Stop()
		stop(nil)
		s.stop = nil
	}
	var (
		errs  []error
		known = map[string]bool{}
	)
	for _, it := range s.items {
		if err := s.progress(it).err; err != nil && !known[err.Error()] {
			known[err.Error()] = true
			errs = append(errs, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items, s.failures = nil, 0
	return errors.Join(errs...)
}

// While runs f, and sends meanwhile what becomes free. When an item fails, f's
// context ends, and the error is that of Gather.
func (s *Sequence) While(ctx context.Context, f func(context.Context) error) error {
	if len(s.items) == 0 {
		return f(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	result := make(chan error, 1)
	go func() { result <- f(ctx) }() // its result is waited for below
	for {
		s.step(func(*Item, webhook.Fault) bool { return true })
		if s.Failed() {
			cancel(ErrStopped)
			err := s.Gather(nil)
			return errors.Join(err, because(<-result))
		}
		select {
		case err := <-result:
			return err
		case <-s.changed:
		}
	}
}

// because is an error that the end of a context was not the cause of; nil if it was.
func because(err error) error {
	if errors.Is(err, ErrStopped) {
		return nil
	}
	return err
}

// Drop gives up items that are held or not sent yet; what is on its way is waited
// for.
func (s *Sequence) Drop(which func(*Item) bool) {
	for _, it := range s.items {
		if !which(it) {
			continue
		}
		for {
			p := s.progress(it)
			if p.state == waiting {
				s.finish(it, nil)
			}
			if p.state == held {
				p.stop(ErrStopped)
			}
			if p.state == done || p.state == waiting {
				break
			}
			<-s.changed
		}
	}
}

// Failed reports whether an item failed since the last Gather.
func (s *Sequence) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failures > 0
}

// Pending returns the items that are not done, in order.
func (s *Sequence) Pending() []*Item {
	return slices.DeleteFunc(slices.Clone(s.items), func(it *Item) bool { return s.progress(it).state == done })
}

// advance sends what may be sent, and waits for all but what leave reports true of.
func (s *Sequence) advance(leave func(*Item, webhook.Fault) bool) {
	for {
		wait := s.step(leave)
		if wait == 0 {
			return
		}
		late := time.NewTimer(wait)
		select {
		case <-s.changed:
		case <-late.C:
		}
		late.Stop()
	}
}

// step starts what may be sent, and returns how long to wait for what is on its
// way; 0 when nothing is to be waited for. A batch is begun when those before it
// need not be waited for; what was left of them goes on whenever it may.
func (s *Sequence) step(leave func(*Item, webhook.Fault) bool) time.Duration {
	s.items = slices.DeleteFunc(s.items, func(it *Item) bool { p := s.progress(it); return p.state == done && p.err == nil })
	if s.stop == nil {
		s.ctx, s.stop = context.WithCancelCause(s.parent)
	}
	wait, free := time.Duration(0), inFlight-s.flying()
	for i, end := 0, 0; i < len(s.items); i = end {
		batch := s.items[i].batch
		if batch > s.reached && wait > 0 {
			return wait
		}
		s.reached = max(s.reached, batch)
		for end = i; end < len(s.items) && s.items[end].batch == batch; end++ {
		}
		wait = max(wait, s.stepBatch(s.items[i:end], s.items[:i], &free, leave))
	}
	return wait
}

// flying counts the items that are on their way.
func (s *Sequence) flying() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, it := range s.items {
		if it.state == sent {
			n++
		}
	}
	return n
}

// stepBatch is step for one batch, which comes after the items before; free is how
// many more may be on their way.
func (s *Sequence) stepBatch(batch, before []*Item, free *int, leave func(*Item, webhook.Fault) bool) time.Duration {
	var first time.Time // one that is left became held
	flying, wait := false, time.Duration(0)
	for _, it := range batch {
		p := s.progress(it)
		if p.state == waiting {
			blocker := s.follows(it, before)
			switch {
			case s.ctx.Err() != nil:
				s.finish(it, context.Cause(s.ctx))
				continue
			case blocker == nil && *free <= 0:
				wait = forever // its turn comes when another one is answered
			case blocker == nil:
				*free--
				s.start(it)
				p.state = sent
			default:
				it.after = s.faultOf(blocker)
				if !leave(it, it.after) {
					wait = forever
				}
			}
		}
		switch {
		case p.state == sent:
			flying = true
		case p.state != held:
		case !leave(it, p.fault):
			wait = forever
		case first.IsZero() || p.since.Before(first):
			first = p.since
		}
	}
	switch {
	case !flying:
		return wait
	case first.IsZero():
		return forever
	}
	return max(wait, time.Until(first.Add(grace)))
}

// follows returns the item, of those before it, that an item has to come after;
// nil when there is none. Built-in kinds never have to: a webhook that is held for
// may need them.
func (s *Sequence) follows(it *Item, before []*Item) *Item {
	if it.Judged == nil || !kinds.Custom(it.Kind.Group) {
		return nil
	}
	var doubtful []*Item
	for _, b := range before {
		switch {
		case s.progress(b).state == done:
		case b.Kind.GroupKind() == it.Kind.GroupKind():
			return b
		case s.faultOf(b).Kind != "":
			doubtful = append(doubtful, b)
		}
	}
	for _, b := range doubtful {
		fault := s.faultOf(b)
		judged, known := it.judged[fault.Key()]
		if !known {
			if it.judged == nil {
				it.judged = map[string]bool{}
			}
			judged = it.Judged(s.ctx, fault)
			it.judged[fault.Key()] = judged
		}
		if judged {
			return b
		}
	}
	return nil
}

// faultOf returns the fault for which an item is held, or was; else that of the
// item that it had to come after: it keeps its own place among those that follow.
func (s *Sequence) faultOf(it *Item) webhook.Fault {
	if f := s.progress(it).fault; f.Kind != "" {
		return f
	}
	return it.after
}
