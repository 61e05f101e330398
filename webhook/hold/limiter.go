package hold

import (
	"context"
	"net/http"
	"path"
	"sync"
	"time"
)

// initialLimit is how many writes of a kind go first. With a leader's try that makes
// two calls at once before the first success, unless calls hang; with two writes the
// API server was seen to work on four.
const initialLimit = 1

// admissionLimiter bounds how many writes of one kind are on their way until one of
// them passed: when a client sends two hundred objects at once, as Helm does with all
// of a kind, their webhook is met by a few at a time. The zero value is ready.
type admissionLimiter struct {
	mu    sync.Mutex
	kinds map[string]*kindLimit
}

// kindLimit is what is known of the writes of one kind in one namespace.
type kindLimit struct {
	// open says that writes pass.
	open bool
	// inFlight writes are on their way, of limit that may be. The limit doubles with
	// every second in which they hang; raised is when it last did.
	inFlight, limit int
	raised          time.Time
	// changed is closed, and made anew, when one comes back, to wake all that wait.
	changed chan struct{}
}

// limiterKey returns what the writes of one kind have in common; "" for a request that
// need not wait.
func limiterKey(req *http.Request) string {
	r := routeOf(req)
	if r.subresource != "" {
		return ""
	}
	switch req.Method {
	case http.MethodPost:
		return req.URL.Path
	case http.MethodPut, http.MethodPatch:
		return path.Dir(req.URL.Path)
	}
	return ""
}

// acquire waits until a write may be sent for the first time, and returns the function
// to be told whether it passed.
func (l *admissionLimiter) acquire(ctx context.Context, key string) (release func(passed bool), err error) {
	if key == "" {
		return func(bool) {}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kinds == nil {
		l.kinds = map[string]*kindLimit{}
	}
	v := l.kinds[key]
	if v == nil {
		v = &kindLimit{limit: initialLimit, changed: make(chan struct{})}
		l.kinds[key] = v
	}
	for !v.open && v.inFlight >= v.limit {
		changed, hung := v.changed, time.After(time.Until(v.raised.Add(hangTime)))
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-changed:
		case <-hung:
		}
		l.mu.Lock()
		if err != nil {
			return nil, err
		}
		v.raise()
	}
	v.inFlight++
	if v.inFlight == v.limit {
		v.raised = time.Now()
	}
	return func(passed bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		v.inFlight--
		v.open, v.limit = passed, initialLimit
		v.broadcast()
	}, nil
}

// raise doubles the limit when those on their way hang: the others may have nothing to
// do with that. The mutex is held.
func (v *kindLimit) raise() {
	if v.inFlight < v.limit || time.Since(v.raised) < hangTime {
		return
	}
	v.limit *= 2
	v.raised = time.Now()
	v.broadcast()
}

// broadcast wakes those who wait. The mutex is held.
func (v *kindLimit) broadcast() {
	close(v.changed)
	v.changed = make(chan struct{})
}
