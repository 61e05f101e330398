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
	"k8s.io/apimachinery/pkg/types"
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
	holder Holder
	from   string    // whom it was taken over from, and why
	uid    types.UID // of the Lease: no other cluster has it

	lost   chan struct{} // closed when the lock is lost
	cancel context.CancelCauseFunc
	beats  sync.WaitGroup // the heartbeat; Release ends it

	mu      sync.Mutex
	place   Place                 // over which it is renewed
	lease   *coordinationv1.Lease // as last read or written
	renewed time.Time
	err     error // why it was lost
}

// Acquire takes the lock of a plan on a cluster, and renews it until Release.
//
// A holder that is known to be gone loses it at once, and so does the one before on the
// same seat. One that was not heard of for a minute loses it if it gives no sign of life
// in the time of two heartbeats. Any other is waited for as long as the request says; then the
// error is a *HeldError. Who may not keep a lock there gets a *DeniedError. An API
// server that does not answer is asked again for half a minute.
func Acquire(ctx context.Context, p Place, r Request) (*Lock, error) {
	began, heard := time.Now(), time.Now()
	w := watcher{told: r.Told, waits: r.Wait > 0, seat: r.Holder.Seat}
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
	waits bool   // for one that is alive
	seat  string // of who looks

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
	if h.ended() || w.seat != "" && w.seat == h.Seat {
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
	l := &Lock{holder: h, from: from, uid: lease.UID, lost: make(chan struct{}), place: p, lease: lease, renewed: time.Now()}
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

// lose notes that the lock is lost, and why.
func (l *Lock) lose(why *LostError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = why
		close(l.lost)
	}
}

// now returns over what the lock is renewed, and the Lease as it was last seen.
func (l *Lock) now() (Place, *coordinationv1.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.place, l.lease
}

// saw keeps the Lease as it was seen over a connection, unless the lock is renewed over
// another one by now.
func (l *Lock) saw(p Place, lease *coordinationv1.Lease, renewed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.place != p {
		return
	}
	if l.lease = lease; renewed {
		l.renewed = time.Now()
	}
}

// Continue goes on with the lock over another connection to its cluster: it is renewed
// and given back over that. It reports false, and does nothing, when the connection
// leads to another cluster. Who may not renew the lock over it goes on as before. An API
// server that does not answer is asked again for half a minute.
func (l *Lock) Continue(ctx context.Context, p Place) (bool, error) {
	for began := time.Now(); ; {
		if err := l.Err(); err != nil {
			return false, err
		}
		same, err := l.move(ctx, p)
		lost := (*LostError)(nil)
		switch {
		case err == nil:
			return same, nil
		case errors.As(err, &lost):
			l.lose(lost)
			return false, lost
		case isLate(err):
			continue // the heartbeat was quicker
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case !isAway(err) && same:
			return true, nil
		case !isAway(err) || time.Since(began) >= awayTime:
			return false, p.denied(err)
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// move renews the lock over another connection, and stays with that. It reports whether
// the Lease there is that of the lock.
func (l *Lock) move(ctx context.Context, p Place) (same bool, err error) {
	lease, err := p.read(ctx)
	if err != nil || lease == nil || lease.UID != l.uid {
		return false, err
	}
	if err := l.owns(p, lease); err != nil {
		return true, err
	}
	written, err := p.renew(ctx, lease)
	if err != nil {
		return true, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.place, l.lease, l.renewed = p, written, time.Now()
	return true, nil
}

// owns returns a *LostError unless a Lease says that this run has the lock.
func (l *Lock) owns(p Place, lease *coordinationv1.Lease) error {
	switch holder, held := holderOf(lease); {
	case !held:
		return &LostError{Plan: p.Plan}
	case holder.Run != l.holder.Run:
		return &LostError{Plan: p.Plan, By: &holder}
	}
	return nil
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
	p, lease := l.now()
	lease = lease.DeepCopy()
	lease.Spec.HolderIdentity = new(string)
	_, err := p.Client.CoordinationV1().Leases(p.Namespace).Update(ctx, lease, metav1.UpdateOptions{FieldManager: manager})
	if apierrors.IsConflict(err) {
		// It is another's, or a heartbeat was done whose answer nobody waited for.
		_, err = p.Unlock(ctx, l.holder)
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
	for {
		select {
		case <-tick.C:
		case <-l.lost:
			return
		case <-ctx.Done():
			return
		}
		p, _ := l.now()
		err := l.renew(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		l.mu.Lock()
		moved, late := l.place != p, time.Since(l.renewed) >= leaseTime
		l.mu.Unlock()
		lost := (*LostError)(nil)
		switch {
		case moved: // what the old connection led to may be another cluster by now
		case errors.As(err, &lost):
			l.lose(lost)
		case late:
			l.lose(&LostError{Plan: p.Plan, Err: err})
		}
	}
}

// renew writes the time into the Lease. Its error is a *LostError when that is not
// this run's any more.
func (l *Lock) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, renewEvery, errors.New("the API server does not answer"))
	defer cancel()
	p, lease := l.now()
	written, err := p.renew(ctx, lease)
	switch {
	case err == nil:
		l.saw(p, written, true)
		return nil
	case apierrors.IsNotFound(err):
		return &LostError{Plan: p.Plan}
	case !apierrors.IsConflict(err):
		return err
	}
	// Somebody wrote to it: the next heartbeat goes on from there.
	current, err := p.read(ctx)
	if err == nil {
		err = l.owns(p, current)
	}
	if err != nil {
		return err
	}
	l.saw(p, current, false)
	return errors.New("somebody else wrote to the Lease")
}
