package hold

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// Defaults of a Transport.
const (
	// DefaultTimeout bounds how long one request is held.
	DefaultTimeout = 5 * time.Minute
	// DefaultGrace bounds how long a request is held for a webhook that is
	// misconfigured rather than late.
	DefaultGrace = 30 * time.Second
)

// Transport holds requests that an admission webhook could not judge, and sends
// them again until it does. The client above sees one slow request.
//
// A request is sent again only when the answer proves that it did nothing:
//   - "failed calling webhook": admission runs before storage, so the object
//     was not written. A DELETE of a collection calls it for each object: the
//     ones before the failure are gone, and sending it again deletes the rest;
//   - "conversion webhook for … failed": on a read nothing is written; on a
//     write the object is converted to its stored version first, and what was
//     stored is converted back for the answer. A create is sent again only if the
//     version that could not be converted is its own (see
//     [webhook.Fault.ForRequest]); other writes may be done twice;
//   - "not yet ready to handle request": the API server's admission has not
//     synchronised and refuses before storage;
//   - while a request is held, no connection to the API server, which includes
//     the TLS handshake: nothing was sent. When a connection breaks after that,
//     what may be done twice is sent again, and a create if its object does not
//     exist. The same holds for a write that is sent for the first time meanwhile.
//
// Everything else, a denial above all, goes back to the client untouched.
type Transport struct {
	// Base sends requests; http.DefaultTransport when nil. An error of it with a
	// method Unauthorized() bool that gives true says that the API server refused
	// the credentials: twice in a row end a hold.
	Base http.RoundTripper
	// Gate is shared by all transports of one cluster, so that one request of
	// many leads. Required.
	Gate *Gate
	// Timeout bounds how long one request is held; DefaultTimeout when 0.
	Timeout time.Duration
	// Grace bounds how long a request is held for a webhook that is
	// misconfigured; DefaultGrace when 0.
	Grace time.Duration
	// Kind names the kind of a resource, "" for one that it does not know; it may be
	// nil. The bodies of merge patches and deletions do not tell. It may ask the API
	// server, past this transport, until the context ends.
	Kind func(context.Context, schema.GroupVersionResource) string
	// Notify is told when a request becomes held, is released, or is refused. It
	// is called from the request's goroutine and must not block. It may be nil.
	Notify func(Notice)
}

// Event says what a Notice tells.
type Event string

// What a Transport tells of a request.
const (
	// Held: it waits for a webhook, or for another reason than before.
	Held Event = "held"
	// Released: it was answered, by the webhook that it was held for or by somebody
	// before that, or it was given up.
	Released Event = "released"
	// Denied: a webhook denied it.
	Denied Event = "refused"
	// StatusChanged: the webhook that it is held for stands otherwise than before. Each
	// transport tells it once of each webhook, however many requests wait for that.
	StatusChanged Event = "stands"
)

// Notice is what a Transport tells about one request.
type Notice struct {
	Event   Event
	Request Request
	// Fault is why the request is, or was last, held; or the denial.
	Fault webhook.Fault
	// Held is how long the request has been held for this webhook, and Sends
	// how often it was sent for it.
	Held  time.Duration
	Sends int
	// Status is how the webhook stands, in StatusChanged; it was read from the cluster.
	Status survey.Status
	// Err is set when the request was given up.
	Err error
}

// Error says that a held request was given up.
type Error struct {
	Request Request
	// Fault is the last answer.
	Fault webhook.Fault
	// Held is how long the request was held, and Sends how often it was sent.
	Held  time.Duration
	Sends int
	// Limit is the bound that was reached; 0 when the hold ended for another reason.
	Limit time.Duration
	// Cause is what ended the hold when no bound did: a cancelled context.
	Cause error
	// Status is how the webhook stood at the end, with its owner; its ladder
	// is empty when nothing could be read.
	Status survey.Status
}

func (e *Error) Error() string {
	what := "webhook"
	if e.Fault.Kind == webhook.Conversion {
		what = "conversion webhook"
	}
	if e.Fault.Kind == webhook.Server {
		return fmt.Sprintf("%s was held %s for the API server: %s", e.Request, round(e.Held), e.Fault.Message)
	}
	s := fmt.Sprintf("%s was held %s for %s %q", e.Request, round(e.Held), what, e.Fault.Webhook)
	if key := e.Fault.ServiceKey(); key != "" {
		s += " (Service " + key + ")"
	}
	s += ", which never answered: " + e.Fault.Cause
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// WebhookFault is the last answer, for webhook.ClassifyError.
func (e *Error) WebhookFault() webhook.Fault { return e.Fault }

// Unwrap returns the cause that ended the hold, if it was not a bound.
func (e *Error) Unwrap() error { return e.Cause }

func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// RoundTrip sends req, and holds it as long as a webhook cannot judge it.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := replayable(req)
	if err != nil {
		return nil, err
	}
	h := &heldRequest{transport: t, req: req, body: body}
	release, err := t.Gate.limiter.acquire(req.Context(), limiterKey(req))
	if err != nil {
		return nil, err
	}
	resp, fault, err := h.send()
	release(err == nil && !fault.Retryable())
	if err != nil {
		var away bool
		if fault, away = h.serverAway(err); !away {
			return nil, err
		}
	}
	if fault.Retryable() {
		return h.run(fault)
	}
	h.refused(fault)
	return resp, nil
}

// replayable returns a function that makes the body of req anew; nil for no body.
func replayable(req *http.Request) (func() (io.ReadCloser, error), error) {
	if req.Body == nil || req.Body == http.NoBody {
		return nil, nil
	}
	if req.GetBody != nil {
		return req.GetBody, req.Body.Close() // http.RoundTripper has to close it
	}
	// client-go always sends bytes; another client's stream is kept in memory.
	// An object is at most some MiB (etcd's limit is 1.5 MiB by default).
	b, err := io.ReadAll(req.Body)
	if cerr := req.Body.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, fmt.Errorf("read request body: %w", err)
	}
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }, nil
}

// heldRequest is one request on its way through a Transport; one goroutine uses it.
type heldRequest struct {
	transport *Transport
	req       *http.Request
	body      func() (io.ReadCloser, error)
	request   Request
	// fault is the last answer, since the first one's time.
	fault webhook.Fault
	since time.Time
	sends int
	// began and before are the time and the sends at which the request came to
	// be held for the fault's webhook.
	began  time.Time
	before int
	// left says that the last send had a connection: bytes may have left.
	left bool
	// broken is why the connection of a create broke that may have been done.
	broken error
	// refusals counts how often the credentials were refused in a row.
	refusals int
}

// send sends the request once. A fault that can be waited for comes back with
// the response closed; everything else with the response as it came.
func (h *heldRequest) send() (*http.Response, webhook.Fault, error) {
	var left atomic.Bool
	out := h.req.Clone(httptrace.WithClientTrace(h.req.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { left.Store(true) },
	}))
	if h.body != nil {
		b, err := h.body()
		if err != nil {
			return nil, webhook.Fault{}, fmt.Errorf("replay request body: %w", err)
		}
		out.Body = b
	}
	h.sends++
	resp, err := h.base().RoundTrip(out)
	h.left = left.Load()
	if err != nil {
		return nil, webhook.Fault{}, err
	}
	return readFault(resp, h.req)
}

func (h *heldRequest) base() http.RoundTripper {
	return cmp.Or(h.transport.Base, http.DefaultTransport)
}

// again sends the request once more, unless it may have been done already.
func (h *heldRequest) again() (*http.Response, webhook.Fault, error) {
	if h.broken != nil {
		there, err := h.exists()
		if h.left = err == nil; err != nil {
			return nil, webhook.Fault{}, err
		}
		if there {
			return nil, webhook.Fault{}, h.broken
		}
		h.broken = nil
	}
	return h.send()
}

// run holds the request until it is answered or given up.
func (h *heldRequest) run(f webhook.Fault) (*http.Response, error) {
	h.request = h.describe()
	h.since = time.Now()
	f = h.transport.Gate.locate(f)
	queued := h.transport.Gate.join(h.transport, f)
	h.record(queued.record(f))
	defer func() { queued.leave() }()
	for {
		if err := h.wait(queued); err != nil {
			return nil, h.giveUp(err, queued)
		}
		began := time.Now()
		resp, f, err := h.again()
		cost := time.Since(began)
		if h.refusals++; !unauthorized(err) {
			h.refusals = 0
		}
		switch {
		case h.refusals > 1: // once may be an API server that has just started
			h.notify(Notice{Event: Released, Err: err})
			return nil, err
		case err != nil && h.left && h.refusals == 0 && (h.broken != nil || !h.survives(err)):
			return nil, h.giveUp(err, queued)
		case err != nil:
			// The API server is away; the next try may find it.
			if !queued.failed(cost) {
				queued = h.transport.Gate.join(h.transport, h.fault)
			}
		case f.Retryable():
			f = h.transport.Gate.locate(f)
			if f.Key() != h.fault.Key() || !queued.failed(cost) {
				queued.leave()
				queued = h.transport.Gate.join(h.transport, f)
			}
			h.record(queued.record(f))
		default:
			if h.provesAnswer(resp, f) {
				h.transport.Gate.called(h.fault, true)
				queued.answered()
			}
			h.notify(Notice{Event: Released})
			h.refused(f)
			return resp, nil
		}
	}
}

// record notes an answer, and tells of it when it differs from the one before.
func (h *heldRequest) record(f webhook.Fault) {
	moved := f.Kind != h.fault.Kind || f.Webhook != h.fault.Webhook
	changed := moved || f.Cause != h.fault.Cause
	if moved {
		if h.fault.Kind != "" { // the webhook before answered, and now another one does not
			h.notify(Notice{Event: Released})
		}
		h.began, h.before = time.Now(), h.sends-1
	}
	h.fault = f
	h.transport.Gate.called(f, false)
	if changed {
		h.notify(Notice{Event: Held})
	}
}

// wait blocks until the request should be sent again.
func (h *heldRequest) wait(w *waiter) error {
	limit := cmp.Or(max(h.transport.Timeout, 0), DefaultTimeout)
	grace := cmp.Or(max(h.transport.Grace, 0), DefaultGrace)
	return w.wait(h.req.Context(), bound{limit, h.since.Add(limit)}, grace, h.fault, func(st survey.Status) {
		h.notify(Notice{Event: StatusChanged, Status: st})
	})
}

// giveUp returns the error of a request that is no longer held.
func (h *heldRequest) giveUp(err error, w *waiter) error {
	if f := w.lastFault(); f.Webhook == h.fault.Webhook { // another request may have learnt more since
		h.fault = f
	}
	e := &Error{Request: h.request, Fault: h.fault, Held: time.Since(h.since), Sends: h.sends, Status: w.status(h.fault)}
	if b := (*boundError)(nil); errors.As(err, &b) {
		e.Limit = b.limit
	} else {
		e.Cause = err
	}
	h.notify(Notice{Event: Released, Err: e})
	return e
}

// notify completes a notice and tells it.
func (h *heldRequest) notify(n Notice) {
	n.Request, n.Fault, n.Held, n.Sends = h.request, h.fault, time.Since(h.began), h.sends-h.before
	if h.transport.Notify != nil {
		h.transport.Notify(n)
	}
	if f := notifyOf(h.req.Context()); f != nil {
		f(n)
	}
}

// refused tells of a denial.
func (h *heldRequest) refused(f webhook.Fault) {
	if f.Class == webhook.Denied && h.transport.Notify != nil {
		h.transport.Notify(Notice{Event: Denied, Request: h.describe(), Fault: f, Sends: h.sends})
	}
}
