package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The lock's times. A run that is not heard of for leaseTime may be taken for dead;
// it outlasts an API server that restarts.
const (
	leaseTime   = time.Minute
	renewEvery  = 5 * time.Second
	lookEvery   = 500 * time.Millisecond // while another run has the lock
	releaseTime = 5 * time.Second
	awayTime    = 30 * time.Second // that an API server may not answer while the lock is asked for
)

// Request says who wants a lock, and how long it waits for it.
type Request struct {
	Holder Holder
	// Wait is how long to wait for another run that is alive to end.
	Wait time.Duration
	// Told hears for whom Acquire waits, in its goroutine; it may be nil.
	Told func(string)
}

// Lock is held by this run until Release, or until it is lost.
type Lock struct {
	place  Place
	holder Holder
	from   string // whom it was taken over from, and why

	lost   chan struct{} // closed by the heartbeat when the lock is lost
	cancel context.CancelCauseFunc
	beats  sync.WaitGroup // the heartbeat; Release ends it

	mu    sync.Mutex
	lease *coordinationv1.Lease // as last read or written
	err   error                 // why it was lost
}

// Acquire takes the lock of a plan on a cluster, and renews it until Release.
//
// A holder that is known to be gone loses it at once; one that was not heard of
// for a minute loses it if it gives no sign of life in the time of two
// heartbeats. Any other is waited for as long as the request says; then the
// error is a *HeldError. Who may not keep a lock there gets a *DeniedError. An API
// server that does not answer is asked again for half a minute.
func Acquire(ctx context.Context, p Place, r Request) (*Lock, error) {
	began, heard := time.Now(), time.Now()
	w := watcher{told: r.Told, waits: r.Wait > 0}
	for {
		lease, err := p.read(ctx)
		holder, held := holderOf(lease)
		if err == nil && (!held || holder.Run == r.Holder.Run || w.gone(lease, holder)) {
			lease, err = p.take(ctx, lease, r.Holder)
			if err == nil {
				return hold(ctx, p, r.Holder, lease, w.dead), nil
			}
		}
		now := time.Now()
		switch {
		case err == nil:
			heard = now
		case isLate(err):
			heard = now
			continue // another was quicker
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !isAway(err) || now.Sub(heard) >= awayTime:
			return nil, p.denied(err)
		}
		if waited := now.Sub(began); err == nil && waited >= r.Wait && !w.stale {
			return nil, &HeldError{Plan: p.Plan, Holder: holder, Waited: waited.Truncate(time.Second)}
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// watcher looks at another run's lock.
type watcher struct {
	told  func(string)
	waits bool // for one that is alive

	version string    // of the Lease, when it was last seen to change
	since   time.Time // when that was
	heard   bool      // the holder renewed it since it is watched
	stale   bool      // its holder was not heard of for too long, and may be dead
	named   string    // what was told last
	dead    string    // the run that is gone, and how that is known
}

// gone reports whether the holder runs no more. Clocks of two machines differ, so
// a Lease that looks old is watched for a while.
func (w *watcher) gone(lease *coordinationv1.Lease, h Holder) bool {
	if h.ended() {
		w.dead = fmt.Sprintf("%s, which has ended", h)
		return true
	}
	now := time.Now()
	if lease.ResourceVersion != w.version {
		w.heard = w.version != ""
		w.version, w.since = lease.ResourceVersion, now
	}
	silent := now.Sub(h.Renewed) // by two clocks
	if w.heard {
		silent = now.Sub(w.since)
	}
	w.stale = silent > leaseTime
	switch {
	case !w.stale && !w.waits:
	case !w.stale:
		w.tell(h, "the plan is being run by another; waiting for %s")
	case now.Sub(w.since) > 2*renewEvery:
		w.dead = fmt.Sprintf("%s, which gives no sign of life", h)
		return true
	default:
		w.tell(h, "looking for a sign of life of %s")
	}
	return false
}

// tell says something of a holder, once.
func (w *watcher) tell(h Holder, format string) {
	if text := fmt.Sprintf(format, h); w.told != nil && w.named != text {
		w.named = text
		w.told(text)
	}
}

// hold begins the heartbeat of a lock that was taken. It goes on when ctx ends:
// a run that is stopped still ends its requests.
func hold(ctx context.Context, p Place, h Holder, lease *coordinationv1.Lease, from string) *Lock {
	l := &Lock{place: p, holder: h, lease: lease, from: from, lost: make(chan struct{})}
	ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	l.beats.Go(func() { l.beat(ctx) })
	return l
}

// TakenFrom says for people from which run the lock was taken over, and why; it is
// empty when the lock was free.
func (l *Lock) TakenFrom() string { return l.from }

// Lost is closed when the lock is no longer this run's; Err says why.
func (l *Lock) Lost() <-chan struct{} { return l.lost }

// Err returns a *LostError once the lock is lost.
func (l *Lock) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

var errReleased = errors.New("the lock was released")

// Release ends the heartbeat and gives the lock back, unless it was lost. It
// takes at most five seconds; what it cannot give back, the next run takes over.
func (l *Lock) Release(ctx context.Context) error {
	l.cancel(errReleased)
	l.beats.Wait()
	if l.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), releaseTime, errors.New("the API server does not answer"))
	defer cancel()
	lease := l.lease.DeepCopy()
	lease.Spec.HolderIdentity = new(string)
	_, err := l.place.Client.CoordinationV1().Leases(l.place.Namespace).Update(ctx, lease, metav1.UpdateOptions{FieldManager: manager})
	if apierrors.IsConflict(err) {
		// It is another's, or a heartbeat was done whose answer nobody waited for.
		_, err = l.place.Unlock(ctx, l.holder)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// beat renews the lock until ctx ends or it is lost.
func (l *Lock) beat(ctx context.Context) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	renewed := time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now, err := time.Now(), l.renew(ctx)
		if err == nil {
			renewed = now
			continue
		}
		lost := (*LostError)(nil)
		if !errors.As(err, &lost) && time.Since(renewed) >= leaseTime {
			lost = &LostError{Plan: l.place.Plan, Err: err}
		}
		if lost != nil && ctx.Err() == nil {
			l.mu.Lock()
			l.err = lost
			l.mu.Unlock()
			close(l.lost)
			return
		}
	}
}

// renew writes the time into the Lease. Its error is a *LostError when that is not
// this run's any more.
func (l *Lock) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, renewEvery, errors.New("the API server does not answer"))
	defer cancel()
	lease, now := l.lease.DeepCopy(), metav1.NowMicro()
	lease.Spec.RenewTime = &now
	leases := l.place.Client.CoordinationV1().Leases(l.place.Namespace)
	written, err := leases.Update(ctx, lease, metav1.UpdateOptions{FieldManager: manager})
	switch {
	case err == nil:
		l.lease = written
		return nil
	case apierrors.IsNotFound(err):
		return &LostError{Plan: l.place.Plan}
	case !apierrors.IsConflict(err):
		return err
	}
	// Somebody wrote to it: the next heartbeat goes on from there.
	current, err := l.place.read(ctx)
	if err != nil {
		return err
	}
	switch holder, held := holderOf(current); {
	case !held:
		return &LostError{Plan: l.place.Plan}
	case holder.Run != l.holder.Run:
		return &LostError{Plan: l.place.Plan, By: &holder}
	}
	l.lease = current
	return errors.New("somebody else wrote to the Lease")
}
