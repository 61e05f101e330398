package ledger

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kplan-dev/kplan/runner"
)

// A record is written when a step has changed something, at most as often as
// this. One write may take writeTime, all that are left when the run ends endTime.
const (
	writeEvery = 2 * time.Second
	writeTime  = 10 * time.Second
	endTime    = 5 * time.Second
	againAfter = 500 * time.Millisecond
)

var errSlow = errors.New("the API server does not answer")

// Keeper writes the record of a run to its cluster as the run goes on: it is an
// Observer that never waits for the cluster. A run whose steps change nothing, and
// that is over soon, is written once, at its end.
type Keeper struct {
	place  Place
	key    Key
	before *Record
	old    []Entry // runs before this one

	queue *queue
	done  chan struct{} // closed by the writing goroutine when it ends

	// What follows is the writing goroutine's; others read err after done.
	exec    runner.Execution
	events  []runner.Event
	began   time.Time
	written time.Time // when that was tried last
	changed bool      // a step changed something that is not written yet
	parts   int
	err     error // of the last write
}

var _ runner.Observer = (*Keeper)(nil)

// Keep begins to keep the record of a run, whose digests are made with a key; before
// is the record of the run before, and old are the runs that the cluster knows.
// Close ends it. The end of ctx does not: a run that is stopped is recorded too.
func (p Place) Keep(ctx context.Context, key Key, before *Record, old []Entry) *Keeper {
	k := &Keeper{place: p, key: key, before: before, old: old, queue: newQueue(), done: make(chan struct{}), began: time.Now()}
	go k.run(context.WithoutCancel(ctx))
	return k
}

// Observe implements runner.Observer.
func (k *Keeper) Observe(e runner.Event) { k.queue.put(e) }

// Close writes what is left, for a few seconds, and returns why the record in the
// cluster is not whole.
func (k *Keeper) Close() error {
	k.queue.end()
	<-k.done
	return k.err
}

// run writes until the queue ends.
func (k *Keeper) run(ctx context.Context) {
	defer close(k.done)
	tick := time.NewTicker(writeEvery / 4)
	defer tick.Stop()
	for {
		select {
		case <-k.queue.wake:
		case <-tick.C:
		}
		events, ended := k.queue.now()
		for _, e := range events {
			k.note(e)
		}
		if ended {
			k.finish(ctx)
			return
		}
		if k.due(time.Now()) {
			k.write(ctx, writeTime)
		}
	}
}

// note folds an event.
func (k *Keeper) note(e runner.Event) {
	k.exec.Apply(e)
	if e.Type == runner.TypeLog { // may be long, and are in the local file
		return
	}
	k.events = append(k.events, e)
	if e.Type != runner.TypeState {
		return
	}
	switch e.State {
	case runner.StatePending, runner.StateRunning, runner.StateUnchanged, runner.StateSkipped:
	default:
		k.changed = true
	}
}

// due reports whether it is time to write. Who began just now may be done soon.
func (k *Keeper) due(now time.Time) bool {
	if len(k.events) == 0 || apierrors.IsForbidden(k.err) {
		return false
	}
	if k.written.IsZero() {
		return k.changed || now.Sub(k.began) > writeEvery
	}
	return (k.changed || k.err != nil) && now.Sub(k.written) > writeEvery
}

// write writes the record as it is now.
func (k *Keeper) write(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, errSlow)
	defer cancel()
	r := foldOf(&k.exec, k.events, k.before)
	k.parts, k.err = k.place.write(ctx, r, k.key, k.parts)
	if k.err != nil && ctx.Err() != nil {
		k.err = context.Cause(ctx)
	}
	k.written, k.changed = time.Now(), false
}

// finish writes the end of the run, and removes the oldest records.
func (k *Keeper) finish(ctx context.Context) {
	if len(k.events) == 0 {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, endTime, errSlow)
	defer cancel()
	for {
		k.write(ctx, endTime)
		if k.err == nil || ctx.Err() != nil || apierrors.IsForbidden(k.err) || apierrors.IsRequestEntityTooLargeError(k.err) {
			break
		}
		select {
		case <-time.After(againAfter):
		case <-ctx.Done():
		}
	}
	for _, e := range k.old[min(len(k.old), recordsKept-1):] {
		if k.err != nil {
			return
		}
		k.err = k.place.remove(ctx, e)
	}
}
