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
//   - while a request is held, or with Outage, no connection to the API server, which
//     includes the TLS handshake: nothing was sent. When a connection breaks after
//     that, what may be done twice is sent again, and a create if its object does not
//     exist. One that exists is the answer if the create made it (see madeSince).
//     The same holds for a write that is sent for the first time meanwhile.
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
	// Images bounds how long a request is held for a webhook none of whose pods gets its
	// image, by the fault; Timeout bounds it for those that it does not have.
	Images map[webhook.ImageFault]time.Duration
	// Outage bounds how long a request waits for an API server that is away, or
	// takes no requests: one that restarts, is overloaded, or whose etcd has no leader.
	// With 0 only writes wait for it, and only while other requests are held. Watches
	// and logs never do.
	Outage time.Duration
	// Kind names the kind of a resource, "" for one that it does not know; it may be
	// nil. The bodies of merge patches and deletions do not tell. It may ask the API
	// server, past this transport, until the context ends.
	Kind func(context.Context, schema.GroupVersionResource) string
	// Notify is told when a request becomes held, is released, or is refused. It
	// is called from the request's goroutine and must not block. It may be nil.
	Notify func(Notice)
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
	if err == nil && resp != nil && resp.StatusCode == http.StatusUnauthorized && t.Outage > 0 {
		// Only a refusal makes client-go run a credential plugin again, or read a
		// token's file; it hands the refusal on nevertheless.
		resp.Body.Close()
		resp, fault, err = h.send()
	}
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
	// broken is why the connection of a create broke that may have been done, and sent
	// when the last try was sent.
	broken error
	sent   time.Time
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
	h.sent = time.Now()
	resp, err := h.base().RoundTrip(out)
	h.left = left.Load()
	if err != nil {
		return nil, webhook.Fault{}, err
	}
	return h.read(resp)
}

// read looks what an answer says about a webhook, and where the request waits for the
// API server whether that judged it.
func (h *heldRequest) read(resp *http.Response) (*http.Response, webhook.Fault, error) {
	waits := h.transport.Outage > 0 && !streams(h.req)
	if waits {
		var err error
		if resp, err = h.whole(resp); err != nil {
			return nil, webhook.Fault{}, err
		}
	}
	resp, fault, err := readFault(resp, h.req)
	if err != nil || !waits || fault.Class != webhook.None {
		return resp, fault, err
	}
	if resp, err = h.unavailable(resp); err != nil {
		e := (*unavailableError)(nil)
		h.left = !errors.As(err, &e) || e.maybe
	}
	return resp, fault, err
}

func (h *heldRequest) base() http.RoundTripper {
	return cmp.Or(h.transport.Base, http.DefaultTransport)
}

// again sends the request once more, unless it may have been done already.
func (h *heldRequest) again() (*http.Response, webhook.Fault, error) {
	if h.broken != nil {
		h.left = true
		if resp, err := h.made(); resp != nil || err != nil {
			return resp, webhook.Fault{Class: webhook.None}, err
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
			if e := (*unavailableError)(nil); errors.As(err, &e) {
				queued.postpone(e.after)
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
	if h.fault.Kind == webhook.Server {
		limit = cmp.Or(max(h.transport.Outage, 0), limit)
	}
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
