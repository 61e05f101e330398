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
	// signal is filled when something changed for this turn. The door writes,
	// the turn reads; it is never closed.
	signal chan struct{}
	// free says that the webhook answered another request; guarded by the gate's mutex.
	free bool
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
// time has come, or the webhook has answered another request. While it leads,
// tell is called with every change of the webhook's standing.
func (t *turn) wait(ctx context.Context, tell func(survey.Standing)) error {
	for {
		if st, news := t.news(); news {
			tell(st)
		}
		due, ok := t.due()
		if ok && due <= 0 {
			return context.Cause(ctx)
		}
		var timer <-chan time.Time
		if ok {
			timer = time.After(due)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.signal:
		case <-timer:
		}
	}
}

// news gives the standing of the webhook, if this turn leads and it is new.
func (t *turn) news() (survey.Standing, bool) {
	t.door.gate.mu.Lock()
	defer t.door.gate.mu.Unlock()
	d := t.door
	if d.told == d.version || t.free || d.row[0] != t {
		return survey.Standing{}, false
	}
	d.told = d.version
	return d.standing, true
}

// standing gives how the webhook stands, if that was read.
func (t *turn) standing() (survey.Standing, bool) {
	t.door.gate.mu.Lock()
	defer t.door.gate.mu.Unlock()
	return t.door.standing, t.door.version > 0
}

// judge decides the class of a fault by how the webhook stands, where the text
// of the fault can mislead.
func (t *turn) judge(f webhook.Fault) webhook.Class {
	st, ok := t.standing()
	if !ok || st.Configuration == "" {
		return f.Class
	}
	return webhook.Judge(f, &st.Entry, st.Backing, time.Now())
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
	return time.Until(d.row[i-1].sent.Add(after)), true
}

// failed says that the request was sent and the webhook still cannot answer. It
// tells whether the turn is still in the row: one that was let go, too early
// with one of several replicas or API servers perhaps, has to join anew.
func (t *turn) failed(cost time.Duration) bool {
	t.door.gate.mu.Lock()
	defer t.door.gate.mu.Unlock()
	t.sent = time.Time{}
	if t.free {
		return false
	}
	t.door.pace.failed(time.Now(), cost)
	return true
}

// batch is how many requests are let go for each one that was answered: a
// webhook that has just begun to answer is not met by all of them at once.
const batch = 4

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
	n := min(len(d.row), batch)
	for _, o := range d.row[:n] {
		o.free = true
		o.wake()
	}
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
	d := t.door
	i := slices.Index(d.row, t)
	if i < 0 {
		return
	}
	d.row = slices.Delete(d.row, i, i+1)
	switch {
	case len(d.row) == 0:
		d.remove()
	case i == 0:
		d.row[0].wake()
	}
}
