package hold

import (
	"context"
	"net/http"
	"path"
	"sync"
	"time"
)

// vanguardSize is how many writes of a kind go first. With a leader's try that
// makes two calls at once before the first success, unless calls hang; with two
// writes the API server was seen to work on four.
const initialLimit = 1

// scouts let a few writes of one kind go first: when a client sends two hundred
// objects at once, as Helm does with all of a kind, their webhook is met by few
// of them at a time until one passed. The zero value is ready.
type admissionLimiter struct {
	mu    sync.Mutex
	kinds map[string]*kindLimit
}

// vanguard is what is known of the writes of one kind in one namespace.
type kindLimit struct {
	// open says that writes pass.
	open bool
	// flying are on their way, of limit that may be; that doubles, as of raised,
	// with every second in which they hang.
	inFlight, limit int
	raised          time.Time
	// changed is closed, and made anew, when one comes back.
	changed chan struct{}
}

// scoutKey names the kind of a write; "" for a request that need not wait.
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

// enter waits until a write may be sent for the first time, and gives the
// function that says whether it passed.
func (s *admissionLimiter) acquire(ctx context.Context, key string) (back func(passed bool), err error) {
	if key == "" {
		return func(bool) {}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kinds == nil {
		s.kinds = map[string]*kindLimit{}
	}
	v := s.kinds[key]
	if v == nil {
		v = &kindLimit{limit: initialLimit, changed: make(chan struct{})}
		s.kinds[key] = v
	}
	for !v.open && v.inFlight >= v.limit {
		changed, hung := v.changed, time.After(time.Until(v.raised.Add(hangTime)))
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-changed:
		case <-hung:
		}
		s.mu.Lock()
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
		s.mu.Lock()
		defer s.mu.Unlock()
		v.inFlight--
		v.open, v.limit = passed, initialLimit
		v.broadcast()
	}, nil
}

// raise lets more go when those on their way hang: the others may have nothing
// to do with it. The mutex is held.
func (v *kindLimit) raise() {
	if v.inFlight < v.limit || time.Since(v.raised) < hangTime {
		return
	}
	v.limit *= 2
	v.raised = time.Now()
	v.broadcast()
}

// tell wakes those who wait; the mutex is held.
func (v *kindLimit) broadcast() {
	close(v.changed)
	v.changed = make(chan struct{})
}
