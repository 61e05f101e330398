package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// The lock's times. A run that is not heard of for leaseTime may be taken for dead;
// it outlasts an API server that restarts.
const (
	leaseTime   = time.Minute
	renewEvery  = 5 * time.Second
	lookEvery   = 500 * time.Millisecond // while another run has the lock
	releaseTime = 5 * time.Second
)

// Place is where a plan's lock is kept.
type Place struct {
	// Client speaks to the cluster.
	Client kubernetes.Interface
	// Namespace is made if it is missing.
	Namespace string
	// Plan is the plan's name.
	Plan string
}

// Request says who wants a lock, and how long it waits for it.
type Request struct {
	Holder Holder
	// Wait is how long to wait for another run that is alive to end.
	Wait time.Duration
	// Told hears what people should know: whom the lock was taken over from, for
	// whom it waits. It is called in the goroutine of Acquire.
	Told func(string)
}

// HeldError says that another run has the lock.
type HeldError struct {
	Plan   string
	Holder Holder
	// Waited is how long it was waited for.
	Waited time.Duration
}

func (e *HeldError) Error() string {
	text := fmt.Sprintf("plan %s is being run by another: %s, last heard of at %s", e.Plan, e.Holder, e.Holder.Renewed.UTC().Format(time.RFC3339))
	if e.Waited > 0 {
		text += fmt.Sprintf("; waited %s for it", e.Waited.Round(time.Second))
	}
	return text
}

// Hint says what to do about it.
func (e *HeldError) Hint() string {
	return "--lock-wait 5m waits for it to end; kplan unlock takes the lock away from a run that is gone"
}

// LostError says that a run's lock is another's, or nobody's, while it runs.
type LostError struct {
	Plan string
	// By has the lock now; nil when nobody has.
	By *Holder
	// Err is why it could not be renewed in time; nil when somebody took it.
	Err error
}

func (e *LostError) Error() string {
	switch {
	case e.By != nil:
		return fmt.Sprintf("lost the lock of plan %s to another run: %s", e.Plan, e.By)
	case e.Err != nil:
		return fmt.Sprintf("lost the lock of plan %s: it could not be renewed for %s: %v", e.Plan, leaseTime, e.Err)
	}
	return fmt.Sprintf("lost the lock of plan %s: it was taken away", e.Plan)
}

func (e *LostError) Unwrap() error { return e.Err }

// Lock is held by this run until Release, or until it is lost.
type Lock struct {
	place  Place
	holder Holder

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
// error is a *HeldError. Who may not read or write Leases there gets the API
// server's error.
func Acquire(ctx context.Context, p Place, r Request) (*Lock, error) {
	began := time.Now()
	w := watcher{place: p, told: r.Told}
	for {
		lease, err := p.read(ctx)
		if err != nil {
			return nil, err
		}
		holder, held := holderOf(lease)
		if !held || holder.Run == r.Holder.Run || w.gone(lease, holder) {
			taken, err := p.take(ctx, lease, r.Holder)
			if err == nil {
				return hold(ctx, p, r.Holder, taken), nil
			}
			if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
				return nil, err
			}
			continue // another was quicker
		}
		if waited := time.Since(began); waited >= r.Wait && !w.doubtful() {
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
	place Place
	told  func(string)

	version string    // of the Lease, when it was last seen to change
	since   time.Time // when that was
	heard   bool      // the holder renewed it since it is watched
	stale   bool      // its holder was not heard of for too long
	named   string    // the run that was told of
}

// doubtful reports whether the holder may turn out to be dead soon.
func (w *watcher) doubtful() bool { return w.stale }

// gone reports whether the holder runs no more. Clocks of two machines differ, so
// a Lease that looks old is watched for a while.
func (w *watcher) gone(lease *coordinationv1.Lease, h Holder) bool {
	if h.ended() {
		w.tell(h, "takes over the lock of %s, which has ended")
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
	case !w.stale:
		w.tell(h, "waits for %s")
	case now.Sub(w.since) > 2*renewEvery:
		w.tell(h, "takes over the lock of %s, which gives no sign of life")
		return true
	default:
		w.tell(h, "looks for a sign of life of %s")
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

// read returns the plan's Lease, or nil when there is none.
func (p Place) read(ctx context.Context) (*coordinationv1.Lease, error) {
	lease, err := p.Client.CoordinationV1().Leases(p.Namespace).Get(ctx, objectName(p.Plan), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return lease, err
}

// take writes h into the Lease as it was read, nil if there was none.
func (p Place) take(ctx context.Context, old *coordinationv1.Lease, h Holder) (*coordinationv1.Lease, error) {
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: objectName(p.Plan)}}
	if old != nil {
		lease = old.DeepCopy()
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	maps.Copy(lease.Annotations, map[string]string{
		annotationPlan: p.Plan, annotationHost: h.Host, annotationUser: h.User,
		annotationPID: strconv.Itoa(h.PID), annotationProcess: h.process,
	})
	spec := &lease.Spec
	if spec.LeaseTransitions == nil {
		spec.LeaseTransitions = new(int32)
	} else {
		*spec.LeaseTransitions++
	}
	seconds := int32(leaseTime / time.Second)
	spec.HolderIdentity, spec.LeaseDurationSeconds, spec.AcquireTime, spec.RenewTime = &h.Run, &seconds, &now, &now

	leases := p.Client.CoordinationV1().Leases(p.Namespace)
	if old != nil {
		return leases.Update(ctx, lease, metav1.UpdateOptions{FieldManager: manager})
	}
	made, err := leases.Create(ctx, lease, metav1.CreateOptions{FieldManager: manager})
	if !apierrors.IsNotFound(err) {
		return made, err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.Namespace}}
	_, err = p.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{FieldManager: manager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	return leases.Create(ctx, lease, metav1.CreateOptions{FieldManager: manager})
}

// hold begins the heartbeat of a lock that was taken. It goes on when ctx ends:
// a run that is stopped still ends its requests.
func hold(ctx context.Context, p Place, h Holder, lease *coordinationv1.Lease) *Lock {
	l := &Lock{place: p, holder: h, lease: lease, lost: make(chan struct{})}
	ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	l.beats.Go(func() { l.beat(ctx) })
	return l
}

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
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // it is another's already
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

// Locked returns who holds the lock, nil when nobody does.
func (p Place) Locked(ctx context.Context) (*Holder, error) {
	lease, err := p.read(ctx)
	if h, held := holderOf(lease); held && err == nil {
		return &h, nil
	}
	return nil, err
}

// Alive reports whether the holder may still run, as far as one look tells.
func (h Holder) Alive() bool { return !h.ended() && time.Since(h.Renewed) <= leaseTime }

// Unlock takes the lock away from h, and from nobody else: it reports false when
// somebody else has it now.
func (p Place) Unlock(ctx context.Context, h Holder) (bool, error) {
	lease, err := p.read(ctx)
	if err != nil {
		return false, err
	}
	if now, held := holderOf(lease); !held || now.Run != h.Run {
		return false, nil
	}
	lease.Spec.HolderIdentity = new(string)
	_, err = p.Client.CoordinationV1().Leases(p.Namespace).Update(ctx, lease, metav1.UpdateOptions{FieldManager: manager})
	if apierrors.IsConflict(err) {
		// Its holder renewed it between the two, or another took it: look again.
		return p.Unlock(ctx, h)
	}
	return err == nil, err
}
