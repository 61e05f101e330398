package webhook

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
)

// Gate lets held requests go when their webhook answers. All transports to one
// cluster share one: of the requests that wait for the same webhook one leads
// and is sent again and again, the others follow in growing numbers once it
// was answered.
//
// The leader is not sent blindly: the gate watches the webhook's
// EndpointSlices and the webhook configurations, hurries when they change and
// is slow while there is nobody to answer.
type Gate struct {
	client kubernetes.Interface

	mu    sync.Mutex
	doors map[string]*door
	// services remembers which Service a webhook was called at: an HTTP status
	// of a webhook comes without an address.
	services map[string]Fault
	// watches counts the running watches; Close waits for them.
	watches sync.WaitGroup
	closed  bool
}

// NewGate makes a gate. client is used for watches only and must not hold
// requests itself. With a nil client the gate is paced by backoff alone.
// Close the gate when no request is held any more.
func NewGate(client kubernetes.Interface) *Gate {
	return &Gate{client: client, doors: map[string]*door{}, services: map[string]Fault{}}
}

// Close stops the gate's watches and waits for them. Requests that are still
// held go on, paced by backoff.
func (g *Gate) Close() {
	g.mu.Lock()
	g.closed = true
	for _, d := range g.doors {
		d.unwatch()
	}
	g.mu.Unlock()
	g.watches.Wait()
}

// locate adds the Service to a fault that does not name it, if an earlier one
// of the same webhook did.
func (g *Gate) locate(f Fault) Fault {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := string(f.Kind) + " " + f.Webhook
	if f.Service != "" {
		g.services[name] = f
	} else if known, ok := g.services[name]; ok {
		f.Service, f.Namespace, f.Port = known.Service, known.Namespace, known.Port
	}
	return f
}

// join puts a request into the row of those that wait for the fault's webhook.
func (g *Gate) join(f Fault) *turn {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := f.key()
	d := g.doors[key]
	if d == nil {
		d = &door{gate: g, key: key, pace: newPace(time.Now())}
		g.doors[key] = d
		d.watch(f)
	}
	t := &turn{door: d, signal: make(chan struct{}, 1)}
	d.row = append(d.row, t)
	return t
}

// door is the row of requests that wait for one webhook. The gate's mutex
// guards it.
type door struct {
	gate *Gate
	key  string
	// row are those that wait; the first one leads.
	row  []*turn
	pace *pace
	// unwatch stops the watch; never nil once the door is in the gate.
	unwatch func()
}

// watch starts to watch what the webhook depends on.
func (d *door) watch(f Fault) {
	d.unwatch = func() {}
	if d.gate.client == nil || d.gate.closed {
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	d.unwatch = func() { cancel(context.Canceled) }
	w := &watch{client: d.gate.client, fault: f, changed: d.changed}
	d.gate.watches.Go(func() { w.run(ctx) })
}

// changed takes a new reading and lets the leader look when it is due.
func (d *door) changed(c change) {
	d.gate.mu.Lock()
	defer d.gate.mu.Unlock()
	d.pace.changed(time.Now(), c)
	if len(d.row) > 0 {
		d.row[0].wake()
	}
}

// turn is one request's place in a row. Its methods are called from the
// request's goroutine.
type turn struct {
	door *door
	// signal is filled when something changed for this turn. The door writes,
	// the turn reads; it is never closed.
	signal chan struct{}
	// free says that the webhook answered another request; guarded by the gate's mutex.
	free bool
}

func (t *turn) wake() {
	select {
	case t.signal <- struct{}{}:
	default:
	}
}

// wait blocks until the request should be sent again: the turn leads and its
// time has come, or the webhook has answered another request.
func (t *turn) wait(ctx context.Context) error {
	for {
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

// due tells how long the turn has to wait; false when it must be woken.
func (t *turn) due() (time.Duration, bool) {
	t.door.gate.mu.Lock()
	defer t.door.gate.mu.Unlock()
	if t.free {
		return 0, true
	}
	if t.door.row[0] != t {
		return 0, false
	}
	return time.Until(t.door.pace.next), true
}

// failed says that the request was sent and the webhook still cannot answer. It
// tells whether the turn is still in the row: one that was let go, too early
// with one of several replicas or API servers perhaps, has to join anew.
func (t *turn) failed() bool {
	t.door.gate.mu.Lock()
	defer t.door.gate.mu.Unlock()
	if t.free {
		return false
	}
	t.door.pace.failed(time.Now())
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

// remove takes the door down when nobody waits at it.
func (d *door) remove() {
	d.unwatch()
	if d.gate.doors[d.key] == d {
		delete(d.gate.doors, d.key)
	}
}
