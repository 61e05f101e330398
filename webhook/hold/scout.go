package hold

import (
	"context"
	"net/http"
	"path"
	"sync"
	"time"
)

// vanguardSize is how many writes of a kind go first. With a leader's try that
// makes three calls at once before the first success.
const vanguardSize = 2

// scouts let a few writes of one kind go first: when a client sends two hundred
// objects at once, as Helm does with all of a kind, their webhook is met by few
// of them at a time until one passed. The zero value is ready.
type scouts struct {
	mu    sync.Mutex
	kinds map[string]*vanguard
}

// vanguard is what is known of the writes of one kind in one namespace.
type vanguard struct {
	// open says that writes pass, or that it was given up to wait for them.
	open   bool
	flying int
	// changed is closed, and made anew, when one comes back.
	changed chan struct{}
}

// scoutKey names the kind of a write; "" for a request that need not wait.
func scoutKey(req *http.Request) string {
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
func (s *scouts) enter(ctx context.Context, key string) (back func(passed bool), err error) {
	if key == "" {
		return func(bool) {}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kinds == nil {
		s.kinds = map[string]*vanguard{}
	}
	v := s.kinds[key]
	if v == nil {
		v = &vanguard{changed: make(chan struct{})}
		s.kinds[key] = v
	}
	for !v.open && v.flying >= vanguardSize {
		changed := v.changed
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-changed:
		case <-time.After(hangs): // they hang: the others may have nothing to do with it
			changed = nil
		}
		s.mu.Lock()
		if err != nil {
			return nil, err
		}
		if changed == nil && !v.open {
			v.open = true
			v.tell()
		}
	}
	v.flying++
	return func(passed bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		v.flying--
		v.open = passed
		v.tell()
	}, nil
}

// tell wakes those who wait; the mutex is held.
func (v *vanguard) tell() {
	close(v.changed)
	v.changed = make(chan struct{})
}
