package hold

import (
	"sync"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// Ready tells when a request that was given up is worth another try: the
// channel is closed when the ladder of its webhook has changed since, and
// nothing that can be read stands in the way of a call. It is nil, which never
// is, when the gate has no survey or the fault names no webhook.
//
// The webhook is followed until then, or until the survey is closed.
func (g *Gate) Ready(e *Error) <-chan struct{} {
	if g.survey == nil || e.Fault.Webhook == "" {
		return nil
	}
	w := &waiter{fault: e.Fault, before: imprint([]survey.Standing{e.Standing}), ready: make(chan struct{})}
	w.mu.Lock() // until the following is known
	defer w.mu.Unlock()
	w.following = g.survey.Follow(survey.Target{Fault: &e.Fault}, w.changed)
	return w.ready
}

// waiter closes ready, once.
type waiter struct {
	fault  webhook.Fault
	before string
	ready  chan struct{}

	mu        sync.Mutex
	following *survey.Following
	done      bool
}

func (w *waiter) changed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done || !w.following.Synced() {
		return
	}
	st := standingOf(w.following.Standings(), w.fault)
	if st.Ladder == nil || prospectOf(st.Ladder) != callable || imprint([]survey.Standing{st}) == w.before {
		return
	}
	w.done = true
	w.following.Close()
	close(w.ready)
}
