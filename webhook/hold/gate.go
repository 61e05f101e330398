package hold

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// Gate lets held requests go when their webhook answers. All transports to one
// cluster share one: of the requests that wait for the same webhook one leads
// and is sent again and again, the others follow in growing numbers once it
// was answered.
//
// The leader is not sent blindly: the gate follows the webhook's ladder,
// hurries when it changes and is slow while there is nobody to answer.
type Gate struct {
	survey *survey.Survey

	mu    sync.Mutex
	doors map[string]*door
	// services remembers which Service a webhook was called at: an HTTP status
	// of a webhook comes without an address.
	services map[string]webhook.Fault
}

// NewGate makes a gate. With a nil survey it is paced by time alone. The survey
// must outlive the requests, or be closed: a gate is paced by time then.
func NewGate(s *survey.Survey) *Gate {
	return &Gate{survey: s, doors: map[string]*door{}, services: map[string]webhook.Fault{}}
}

// locate adds the Service to a fault that does not name it, if an earlier one
// of the same webhook did.
func (g *Gate) locate(f webhook.Fault) webhook.Fault {
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
func (g *Gate) join(f webhook.Fault) *turn {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := f.Key()
	d := g.doors[key]
	if d == nil {
		d = &door{gate: g, key: key, pace: newPace(time.Now())}
		g.doors[key] = d
		if g.survey != nil && f.Kind != webhook.Server {
			d.following = g.survey.Follow(survey.Target{Fault: &f}, d.changed)
		}
	}
	t := &turn{door: d, signal: make(chan struct{}, 1)}
	d.row = append(d.row, t)
	return t
}

// called tells the survey what a call showed.
func (g *Gate) called(f webhook.Fault, answered bool) {
	if g.survey != nil {
		g.survey.Called(f, answered)
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
func (t *turn) failed(cost time.Duration) bool {
	t.door.gate.mu.Lock()
	defer t.door.gate.mu.Unlock()
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
