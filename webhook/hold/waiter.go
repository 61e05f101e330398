package hold

import (
	"context"
	"slices"
	"time"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// turn is one request's place in a row. Its methods are called from the
// request's goroutine.
type waiter struct {
	queue *waitQueue
	// teller is who tells how the webhook stands that the request waits for.
	notifier notifier
	// signal is filled when something changed for this turn. The door writes,
	// the turn reads; it is never closed.
	signal chan struct{}
	// free says that the webhook answered another request, and away that this
	// one was let go for that and is not back; guarded by the gate's mutex.
	released, inFlight bool
	// sent is when the try left that is on its way; zero when none is. Guarded
	// by the gate's mutex.
	sent time.Time
}

func (t *waiter) wake() {
	select {
	case t.signal <- struct{}{}:
	default:
	}
}

// wait blocks until the request should be sent again: the turn leads and its
// time has come, or the webhook has answered another request. The error is the
// cause of the context's end, or a boundError: a request may wait until the
// given end, and for a webhook that is misconfigured for no longer than grace.
// tell is called with every change of the standing of the webhook that f is about,
// unless another turn of the same teller has told it.
func (t *waiter) wait(ctx context.Context, limit bound, grace time.Duration, f webhook.Fault, tell func(survey.Status)) error {
	for {
		if st, news := t.nextStatus(f); news {
			tell(st)
		}
		b := t.bound(limit, grace)
		rest := time.Until(b.ends)
		if rest <= 0 {
			return &boundError{b.limit}
		}
		due, ok := t.due()
		if ok && due <= 0 {
			return context.Cause(ctx)
		}
		if !ok || due > rest {
			due = rest
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.signal:
		case <-time.After(due):
		}
	}
}

// bound is how long a request may be held, and when that ends.
type bound struct {
	limit time.Duration
	ends  time.Time
}

// bound gives the bound that will be reached first.
func (t *waiter) bound(limit bound, grace time.Duration) bound {
	t.queue.gate.mu.Lock()
	defer t.queue.gate.mu.Unlock()
	if bad := t.queue.misconfiguredSince; !bad.IsZero() && bad.Add(grace).Before(limit.ends) {
		return bound{grace, bad.Add(grace)}
	}
	return limit
}

// boundError says which bound ended a wait.
type boundError struct{ limit time.Duration }

func (e *boundError) Error() string { return "held for " + e.limit.String() }

// news gives the standing of a fault's webhook, if the turn's teller has not told it.
func (t *waiter) nextStatus(f webhook.Fault) (survey.Status, bool) {
	t.queue.gate.mu.Lock()
	defer t.queue.gate.mu.Unlock()
	d := t.queue
	t.notifier.webhook = f.Webhook // webhooks of one Service share a row
	if t.released || d.notified[t.notifier] == d.version {
		return survey.Status{}, false
	}
	d.notified[t.notifier] = d.version
	st := statusOf(d.statuses, f)
	return st, st.Ladder != nil
}

// standing gives how the webhook of a fault stands; it is empty when that was
// not read.
func (t *waiter) status(f webhook.Fault) survey.Status {
	t.queue.gate.mu.Lock()
	defer t.queue.gate.mu.Unlock()
	return statusOf(t.queue.statuses, f)
}

// met takes down what the request's try met, and gives it with the class that
// how the webhook stands leaves to it, for the text alone can mislead.
func (t *waiter) record(f webhook.Fault) webhook.Fault {
	if st := t.status(f); st.Configuration != "" {
		f.Class = webhook.Reclassify(f, &st.Entry, st.Backing, time.Now())
	}
	t.queue.gate.mu.Lock()
	defer t.queue.gate.mu.Unlock()
	t.queue.record(f)
	return f
}

// last is what a try of any request in the row met last.
func (t *waiter) lastFault() webhook.Fault {
	t.queue.gate.mu.Lock()
	defer t.queue.gate.mu.Unlock()
	return t.queue.fault
}

const (
	// leaders is how many tries may be on their way at once before the first
	// answer. There is one, unless it hangs.
	maxLeaders = 3
	// hangs is how long a try may take before the next request in the row tries
	// as well: it may meet another replica, or a connection that is not dead.
	hangTime = time.Second
)

// due tells how long the turn has to wait, false when it must be woken. When it
// need not wait, its try is on its way.
func (t *waiter) due() (time.Duration, bool) {
	t.queue.gate.mu.Lock()
	defer t.queue.gate.mu.Unlock()
	wait, ok := t.untilTry()
	if ok && wait <= 0 {
		t.sent = time.Now()
		if next := slices.Index(t.queue.waiters, t) + 1; next > 0 && next < len(t.queue.waiters) {
			t.queue.waiters[next].wake()
		}
	}
	return wait, ok
}

// distance tells how long it is until the turn's next try; the mutex is held.
func (t *waiter) untilTry() (time.Duration, bool) {
	d := t.queue
	if t.released {
		return 0, true
	}
	i := slices.Index(d.waiters, t)
	if i == 0 {
		return time.Until(d.pace.next), true
	}
	if i >= maxLeaders || d.waiters[i-1].sent.IsZero() {
		return 0, false
	}
	after := hangTime
	if d.pace.reachability == unreachable {
		after = unreachableInterval
	}
	return max(time.Until(d.waiters[i-1].sent.Add(after)), time.Until(d.pace.next)), true
}

// failed says that the request was sent and the webhook still cannot answer. It
// tells whether the turn is still in the row: one that was let go, too early
// with one of several replicas or API servers perhaps, has to join anew.
func (t *waiter) failed(cost time.Duration) bool {
	t.queue.gate.mu.Lock()
	defer t.queue.gate.mu.Unlock()
	t.sent = time.Time{}
	if t.released {
		t.returned()
		return false
	}
	t.queue.pace.failed(time.Now(), cost)
	return true
}

// batch is how many requests are let go for each one that was answered: a
// webhook that has just begun to answer is not met by all of them at once.
const releaseBatch = 8

// width is how many of a row that are let go may be on their way at once. An
// API server calls webhooks over HTTP/1.1 and keeps 25 idle connections to each
// (k8s.io/apiserver pkg/util/webhook/client.go, k8s.io/client-go
// transport/cache.go): with more calls at once, most make a TLS handshake first.
const maxInFlight = 24

// answered says that the webhook answered the request: some of the others may go.
func (t *waiter) answered() {
	t.leave()
	g := t.queue.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.queues[t.queue.key]
	if d == nil {
		return
	}
	n := min(len(d.waiters), releaseBatch, maxInFlight-d.inFlight) // should they all hang, the leader goes on
	for _, o := range d.waiters[:n] {
		o.released, o.inFlight = true, true
		o.wake()
	}
	d.inFlight += n
	d.waiters = slices.Delete(d.waiters, 0, n)
	if len(d.waiters) == 0 {
		d.remove()
		return
	}
	d.pace.answered(time.Now())
	d.waiters[0].wake()
}

// leave takes the turn out of the row; it is harmless when it is not in it.
func (t *waiter) leave() {
	g := t.queue.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	t.returned()
	d := t.queue
	i := slices.Index(d.waiters, t)
	if i < 0 {
		return
	}
	d.waiters = slices.Delete(d.waiters, i, i+1)
	if len(d.waiters) == 0 {
		d.remove()
		return
	}
	if d.notified[t.notifier] != d.version { // it may have been woken for that
		d.wakeNotifiers()
	}
	for ; i < min(maxLeaders, len(d.waiters)); i++ { // they move up
		d.waiters[i].wake()
	}
}

// back takes down that a request that was let go is back; the mutex is held.
func (t *waiter) returned() {
	if t.inFlight {
		t.inFlight = false
		t.queue.inFlight--
	}
}
