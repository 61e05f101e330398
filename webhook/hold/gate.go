package hold

import (
	"sync"
	"time"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// Gate releases held requests when their webhook answers. All transports to one
// cluster share one: of the requests that wait for the same webhook one leads and is
// sent again and again. Once it was answered the others follow, in growing but
// bounded numbers.
//
// The leader is not sent blindly: the gate follows the webhook's ladder, sends often
// when a rung has changed, and rarely while there is nobody to answer.
type Gate struct {
	survey *survey.Survey

	mu     sync.Mutex
	queues map[string]*waitQueue
	// services remembers which Service a webhook was called at: an HTTP status
	// of a webhook comes without an address.
	services map[string]webhook.Fault

	limiter admissionLimiter
}

// NewGate returns a gate. With a nil survey it is paced by time alone. The survey
// must outlive the requests, or be closed: a gate is paced by time then.
func NewGate(s *survey.Survey) *Gate {
	return &Gate{survey: s, queues: map[string]*waitQueue{}, services: map[string]webhook.Fault{}}
}

// holding reports whether a request is held.
func (g *Gate) holding() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.queues) > 0
}

// locate returns the fault with its Service. Where the fault does not name that, an
// earlier one of the same webhook may have.
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

// join puts a request of a transport into the queue of those that wait for the fault's
// webhook.
func (g *Gate) join(by *Transport, f webhook.Fault) *waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := f.Key()
	q := g.queues[key]
	if q == nil {
		q = &waitQueue{gate: g, key: key, pace: newPace(time.Now()), notified: map[notifier]int{}}
		g.queues[key] = q
		if g.survey != nil && f.Kind != webhook.Server {
			q.subscription = g.survey.Subscribe(survey.Target{Fault: &f, Match: at(f.ServiceKey())}, q.changed)
		}
	}
	w := &waiter{queue: q, notifier: notifier{by, f.Webhook}, signal: make(chan struct{}, 1)}
	q.waiters = append(q.waiters, w)
	return w
}

// at returns what selects the webhooks that are called at a Service.
func at(service string) func(webhook.Entry) bool {
	return func(e webhook.Entry) bool { return service != "" && e.Service() == service }
}

// called tells the survey what a call showed.
func (g *Gate) called(f webhook.Fault, answered bool) {
	if g.survey != nil {
		g.survey.RecordCall(f, answered)
	}
}

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
