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
type turn struct {
	door *door
	// teller is who tells how the webhook stands that the request waits for.
	teller teller
	// signal is filled when something changed for this turn. The door writes,
	// the turn reads; it is never closed.
	signal chan struct{}
	// free says that the webhook answered another request, and away that this
	// one was let go for that and is not back; guarded by the gate's mutex.
	free, away bool
	// sent is when the try left that is on its way; zero when none is. Guarded
	// by the gate's mutex.
	sent time.Time
}

func (t *turn) wake() {
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
func (t *turn) wait(ctx context.Context, limit bound, grace time.Duration, f webhook.Fault, tell func(survey.Standing)) error {
	for {
		if st, news := t.news(f); news {
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
func (t *turn) bound(limit bound, grace time.Duration) bound {
	t.door.gate.mu.Lock()
	defer t.door.gate.mu.Unlock()
	if bad := t.door.bad; !bad.IsZero() && bad.Add(grace).Before(limit.ends) {
		return bound{grace, bad.Add(grace)}
	}
	return limit
}

// boundError says which bound ended a wait.
type boundError struct{ limit time.Duration }

func (e *boundError) Error() string { return "held for " + e.limit.String() }

// news gives the standing of a fault's webhook, if the turn's teller has not told it.
func (t *turn) news(f webhook.Fault) (survey.Standing, bool) {
	t.door.gate.mu.Lock()
	defer t.door.gate.mu.Unlock()
	d := t.door
	t.teller.webhook = f.Webhook // webhooks of one Service share a row
	if t.free || d.told[t.teller] == d.version {
		return survey.Standing{}, false
	}
	d.told[t.teller] = d.version
	st := standingOf(d.standings, f)
	return st, st.Ladder != nil
}

// standing gives how the webhook of a fault stands; it is empty when that was
// not read.
func (t *turn) standing(f webhook.Fault) survey.Standing {
	t.door.gate.mu.Lock()
	defer t.door.gate.mu.Unlock()
	return standingOf(t.door.standings, f)
}

// met takes down what the request's try met, and gives it with the class that
// how the webhook stands leaves to it, for the text alone can mislead.
func (t *turn) met(f webhook.Fault) webhook.Fault {
	if st := t.standing(f); st.Configuration != "" {
		f.Class = webhook.Judge(f, &st.Entry, st.Backing, time.Now())
	}
	t.door.gate.mu.Lock()
	defer t.door.gate.mu.Unlock()
	t.door.met(f)
	return f
}

// last is what a try of any request in the row met last.
func (t *turn) last() webhook.Fault {
	t.door.gate.mu.Lock()
	defer t.door.gate.mu.Unlock()
	return t.door.fault
}

const (
	// leaders is how many tries may be on their way at once before the first
	// answer. There is one, unless it hangs.
	leaders = 3
	// hangs is how long a try may take before the next request in the row tries
	// as well: it may meet another replica, or a connection that is not dead.
	hangs = time.Second
)

// due tells how long the turn has to wait, false when it must be woken. When it
// need not wait, its try is on its way.
func (t *turn) due() (time.Duration, bool) {
	t.door.gate.mu.Lock()
	defer t.door.gate.mu.Unlock()
	wait, ok := t.distance()
	if ok && wait <= 0 {
		t.sent = time.Now()
		if next := slices.Index(t.door.row, t) + 1; next > 0 && next < len(t.door.row) {
			t.door.row[next].wake()
		}
	}
	return wait, ok
}

// distance tells how long it is until the turn's next try; the mutex is held.
func (t *turn) distance() (time.Duration, bool) {
	d := t.door
	if t.free {
		return 0, true
	}
	i := slices.Index(d.row, t)
	if i == 0 {
		return time.Until(d.pace.next), true
	}
	if i >= leaders || d.row[i-1].sent.IsZero() {
		return 0, false
	}
	after := hangs
	if d.pace.prospect == hopeless {
		after = slow
	}
	return max(time.Until(d.row[i-1].sent.Add(after)), time.Until(d.pace.next)), true
}

// failed says that the request was sent and the webhook still cannot answer. It
// tells whether the turn is still in the row: one that was let go, too early
// with one of several replicas or API servers perhaps, has to join anew.
func (t *turn) failed(cost time.Duration) bool {
	t.door.gate.mu.Lock()
	defer t.door.gate.mu.Unlock()
	t.sent = time.Time{}
	if t.free {
		t.back()
		return false
	}
	t.door.pace.failed(time.Now(), cost)
	return true
}

// batch is how many requests are let go for each one that was answered: a
// webhook that has just begun to answer is not met by all of them at once.
const batch = 8

// width is how many of a row that are let go may be on their way at once. An
// API server calls webhooks over HTTP/1.1 and keeps 25 idle connections to each
// (k8s.io/apiserver pkg/util/webhook/client.go, k8s.io/client-go
// transport/cache.go): with more calls at once, most make a TLS handshake first.
const width = 24

// answered says that the webhook answered the request: some of the others may go.
func (t *turn) answered() {
	t.leave()
	g := t.door.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.doors[t.door.key]
	if d == nil {
		return
	}
	n := min(len(d.row), batch, width-d.away) // should they all hang, the leader goes on
	for _, o := range d.row[:n] {
		o.free, o.away = true, true
		o.wake()
	}
	d.away += n
	d.row = slices.Delete(d.row, 0, n)
	if len(d.row) == 0 {
		d.remove()
		return
	}
	d.pace.answered(time.Now())
	d.row[0].wake()
}

// leave takes the turn out of the row; it is harmless when it is not in it.
func (t *turn) leave() {
	g := t.door.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	t.back()
	d := t.door
	i := slices.Index(d.row, t)
	if i < 0 {
		return
	}
	d.row = slices.Delete(d.row, i, i+1)
	if len(d.row) == 0 {
		d.remove()
		return
	}
	if d.told[t.teller] != d.version { // it may have been woken for that
		d.wakeTellers()
	}
	for ; i < min(leaders, len(d.row)); i++ { // they move up
		d.row[i].wake()
	}
}

// back takes down that a request that was let go is back; the mutex is held.
func (t *turn) back() {
	if t.away {
		t.away = false
		t.door.away--
	}
}
