package hold

import (
	"context"
	"slices"
	"time"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// waiter is one request's place in a wait queue. Its methods are called from the
// request's goroutine.
type waiter struct {
	queue *waitQueue
	// notifier tells how the webhook stands that the request waits for.
	notifier notifier
	// signal is filled when something changed for this waiter. The queue writes,
	// the waiter reads; it is never closed.
	signal chan struct{}
	// released says that the webhook answered another request, so that this one may
	// go; inFlight that it is not back from that. The gate's mutex guards both.
	released, inFlight bool
	// sent is when the try left that is on its way; zero when none is. Guarded
	// by the gate's mutex.
	sent time.Time
}

func (w *waiter) wake() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// wait blocks until the request should be sent again: the waiter leads and its time
// has come, or the webhook has answered another request. The error is the cause of
// the context's end, or a boundError: a request may wait as long as limit says, and
// for a webhook that is misconfigured for no longer than grace, nor for one whose pods
// do not get their image for longer than the transport's Images say. tell is called with
// every change of the webhook that f is about, unless another waiter of the same
// notifier has told it.
func (w *waiter) wait(ctx context.Context, limit bound, grace time.Duration, f webhook.Fault, tell func(survey.Status)) error {
	for {
		if st, changed := w.nextStatus(f); changed {
			tell(st)
		}
		b := w.bound(limit, grace)
		rest := time.Until(b.ends)
		if rest <= 0 {
			return &boundError{b.limit}
		}
		due, ok := w.due()
		if ok && due <= 0 {
			return context.Cause(ctx)
		}
		if !ok || due > rest {
			due = rest
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.signal:
		case <-time.After(due):
		}
	}
}

// bound is how long a request may be held, and when that ends.
type bound struct {
	limit time.Duration
	ends  time.Time
}

// bound returns the bound that will be reached first.
func (w *waiter) bound(limit bound, grace time.Duration) bound {
	w.queue.gate.mu.Lock()
	defer w.queue.gate.mu.Unlock()
	if bad := w.queue.misconfiguredSince; !bad.IsZero() && bad.Add(grace).Before(limit.ends) {
		limit = bound{grace, bad.Add(grace)}
	}
	image, bounded := w.notifier.transport.Images[w.queue.image]
	if since := w.queue.imageSince; bounded && !since.IsZero() && since.Add(image).Before(limit.ends) {
		limit = bound{image, since.Add(image)}
	}
	return limit
}

// boundError says which bound ended a wait.
type boundError struct{ limit time.Duration }

func (e *boundError) Error() string { return "held for " + e.limit.String() }

// nextStatus returns the status of a fault's webhook, and whether the waiter's notifier
// has yet to tell it.
func (w *waiter) nextStatus(f webhook.Fault) (survey.Status, bool) {
	w.queue.gate.mu.Lock()
	defer w.queue.gate.mu.Unlock()
	q := w.queue
	w.notifier.webhook = f.Webhook // webhooks of one Service share a queue
	if w.released || q.notified[w.notifier] == q.version {
		return survey.Status{}, false
	}
	q.notified[w.notifier] = q.version
	st := statusOf(q.statuses, f)
	return st, st.Ladder != nil
}

// status returns the status of a fault's webhook; it is empty when it was not read.
func (w *waiter) status(f webhook.Fault) survey.Status {
	w.queue.gate.mu.Lock()
	defer w.queue.gate.mu.Unlock()
	return statusOf(w.queue.statuses, f)
}

// record notes what the request's try met, and returns it with the class that fits
// the webhook's objects: the text of a fault alone can mislead.
func (w *waiter) record(f webhook.Fault) webhook.Fault {
	if st := w.status(f); st.Configuration != "" {
		f.Class = webhook.Reclassify(f, &st.Entry, st.Backing, time.Now())
	}
	w.queue.gate.mu.Lock()
	defer w.queue.gate.mu.Unlock()
	w.queue.record(f)
	return f
}

// lastFault returns what a try of any request in the queue met last.
func (w *waiter) lastFault() webhook.Fault {
	w.queue.gate.mu.Lock()
	defer w.queue.gate.mu.Unlock()
	return w.queue.fault
}

const (
	// maxLeaders is how many tries may be on their way at once before the first
	// answer. There is one, unless it hangs.
	maxLeaders = 3
	// hangTime is how long a try may take before the next request in the queue tries
	// as well: it may meet another replica, or a connection that is not dead.
	hangTime = time.Second
)

// due returns how long the waiter has to wait, false when it must be woken. When it
// need not wait, its try counts as sent.
func (w *waiter) due() (time.Duration, bool) {
	w.queue.gate.mu.Lock()
	defer w.queue.gate.mu.Unlock()
	wait, ok := w.untilTry()
	if ok && wait <= 0 {
		w.sent = time.Now()
		if next := slices.Index(w.queue.waiters, w) + 1; next > 0 && next < len(w.queue.waiters) {
			w.queue.waiters[next].wake()
		}
	}
	return wait, ok
}

// untilTry returns how long it is until the waiter's next try, false when it must be
// woken. The gate's mutex is held.
func (w *waiter) untilTry() (time.Duration, bool) {
	q := w.queue
	if w.released {
		return 0, true
	}
	i := slices.Index(q.waiters, w)
	if i == 0 {
		return time.Until(q.pace.next), true
	}
	if i >= maxLeaders || q.waiters[i-1].sent.IsZero() {
		return 0, false
	}
	after := hangTime
	if q.pace.reachability == unreachable {
		after = unreachableInterval
	}
	return max(time.Until(q.waiters[i-1].sent.Add(after)), time.Until(q.pace.next)), true
}

// failed notes that the request was sent and the webhook still cannot answer. It
// reports whether the waiter is still in the queue: one that was released, too early
// perhaps where there are several replicas or API servers, has to join anew.
func (w *waiter) failed(cost time.Duration) bool {
	w.queue.gate.mu.Lock()
	defer w.queue.gate.mu.Unlock()
	w.sent = time.Time{}
	if w.released {
		w.returned()
		return false
	}
	w.queue.pace.failed(time.Now(), cost)
	return true
}

// postpone lets no waiter be sent for a while: the API server asked for that.
func (w *waiter) postpone(after time.Duration) {
	w.queue.gate.mu.Lock()
	defer w.queue.gate.mu.Unlock()
	if next := time.Now().Add(after); next.After(w.queue.pace.next) {
		w.queue.pace.next = next
	}
}

// releaseBatch is how many requests are released for each one that was answered: a
// webhook that has just begun to answer is not met by all of them at once.
const releaseBatch = 8

// maxInFlight is how many released requests of a queue may be on their way at once. An
// API server calls webhooks over HTTP/1.1 and keeps 25 idle connections to each
// (k8s.io/apiserver pkg/util/webhook/client.go, k8s.io/client-go
// transport/cache.go): with more calls at once, most make a TLS handshake first.
const maxInFlight = 24

// answered notes that the webhook answered the request: some of the others may go.
func (w *waiter) answered() {
	w.leave()
	g := w.queue.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.queues[w.queue.key]
	if q == nil {
		return
	}
	n := min(len(q.waiters), releaseBatch, maxInFlight-q.inFlight) // should they all hang, the leader goes on
	for _, o := range q.waiters[:n] {
		o.released, o.inFlight = true, true
		o.wake()
	}
	q.inFlight += n
	q.waiters = slices.Delete(q.waiters, 0, n)
	if len(q.waiters) == 0 {
		q.remove()
		return
	}
	q.pace.answered(time.Now())
	q.waiters[0].wake()
}

// leave takes the waiter out of the queue, if it is in it.
func (w *waiter) leave() {
	g := w.queue.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	w.returned()
	q := w.queue
	i := slices.Index(q.waiters, w)
	if i < 0 {
		return
	}
	q.waiters = slices.Delete(q.waiters, i, i+1)
	if len(q.waiters) == 0 {
		q.remove()
		return
	}
	if q.notified[w.notifier] != q.version { // this waiter may have been woken to tell
		q.wakeNotifiers()
	}
	for ; i < min(maxLeaders, len(q.waiters)); i++ { // they move up
		q.waiters[i].wake()
	}
}

// returned notes that a released request is back. The gate's mutex is held.
func (w *waiter) returned() {
	if w.inFlight {
		w.inFlight = false
		w.queue.inFlight--
	}
}
