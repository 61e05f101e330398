package hold

import (
	"sync"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// Ready returns a channel that tells when a request that was given up is worth another
// try: it is closed when the ladder of its webhook has changed since, and
// nothing that can be read stands in the way of a call. It is nil, and so never ready, when the gate has no survey or the fault names no webhook.
//
// The webhook is followed until then, or until the survey is closed.
func (g *Gate) Ready(e *Error) <-chan struct{} {
	if g.survey == nil || e.Fault.Webhook == "" {
		return nil
	}
	w := &readiness{fault: e.Fault, before: fingerprint([]survey.Status{e.Status}), ready: make(chan struct{})}
	w.mu.Lock() // until subscription is set
	defer w.mu.Unlock()
	w.subscription = g.survey.Subscribe(survey.Target{Fault: &e.Fault}, w.changed)
	return w.ready
}

// readiness closes ready once, when the webhook of a fault can be called.
type readiness struct {
	fault  webhook.Fault
	before string
	ready  chan struct{}

	mu           sync.Mutex
	subscription *survey.Subscription
	done         bool
}

func (w *readiness) changed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done || !w.subscription.Synced() {
		return
	}
	st := statusOf(w.subscription.Statuses(), w.fault)
	if st.Ladder == nil || reachabilityOf(st.Ladder) != reachable || fingerprint([]survey.Status{st}) == w.before {
		return
	}
	w.done = true
	w.subscription.Close()
	close(w.ready)
}
