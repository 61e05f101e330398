// Package transport is what the requests of a step go through: a hold for webhooks
// that cannot answer yet, the end of the step's attempt, and the care for requests
// that must not be cut off, such as the record of a Helm release. It says of an
// attempt's error what was held or denied meanwhile.
//
// It does not know what a request is for, and decides nothing about webhooks:
// package webhook/hold does.
package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/diagnosis"
	"github.com/kplan-dev/kplan/steps/internal/watch"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/hold"
)

const (
	// finish is how long a write that is on its way may take after its step
	// was cancelled: ended early, nobody knows whether it was done.
	finish = 10 * time.Second
	// record is how long writing down how a release ended may take after that.
	record = 15 * time.Second
)

// Step is the transport of one step: it holds requests for webhooks while the
// step runs, tells the step's reporter of it, and ends them with the step.
//
// Libraries below a step (Helm's above all, helm/helm#12086) send requests that
// no context ends; the line ends them with the context of the attempt.
type Step struct {
	Gate *hold.Gate
	Hold hold.Transport
	// Sends is called before each write; it may be nil.
	Sends func()
	// Attempt is the running one; nil between attempts.
	Attempt atomic.Pointer[Attempt]
}

// Attempt is one run of the step's action.
type Attempt struct {
	Context  context.Context
	Reporter runner.Reporter

	mu sync.Mutex
	// denials are what webhooks refused, in the order of the answers.
	denials []denial
	held    heldNotes
}

// Open connects the line to a running attempt, and close disconnects it.
func (l *Step) Open(ctx context.Context, r runner.Reporter) *Attempt {
	a := &Attempt{Context: ctx, Reporter: r}
	l.Attempt.Store(a)
	return a
}

func (l *Step) Close() { l.Attempt.Store(nil) }

// Wrap puts the line around a cluster's transport: outermost the end of the
// attempt, then the hold, innermost the care for writes on their way.
func (l *Step) Wrap(base http.RoundTripper) http.RoundTripper {
	inner := roundTripper(func(req *http.Request) (*http.Response, error) {
		if l.Sends != nil && writes(req) {
			l.Sends()
		}
		return deliver(base, req)
	})
	if l.Gate == nil {
		return roundTripper(func(req *http.Request) (*http.Response, error) { return l.bound(inner, req) })
	}
	held := l.Hold // each client has a base of its own
	held.Base, held.Gate, held.Notify = inner, l.Gate, l.Notify
	return roundTripper(func(req *http.Request) (*http.Response, error) { return l.bound(&held, req) })
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// bound ends a request with the attempt, except for a last look, and for the
// record of a Helm release, so that a cancelled install is written down as failed
// and not left pending for ever.
func (l *Step) bound(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	a := l.Attempt.Load()
	if a == nil || watch.IsLastLook(req) {
		return next.RoundTrip(req)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	var stop func() bool
	if isReleaseRecord(req) {
		stop = context.AfterFunc(a.Context, func() {
			t := time.AfterFunc(record, func() { cancel(context.Cause(a.Context)) })
			context.AfterFunc(ctx, func() { t.Stop() })
		})
	} else {
		stop = context.AfterFunc(a.Context, func() { cancel(context.Cause(a.Context)) })
		if a.Context.Err() != nil {
			stop()
			cancel(nil)
			return nil, context.Cause(a.Context)
		}
	}
	end := func() { stop(); cancel(nil) }
	return endWithBody(end)(next.RoundTrip(req.WithContext(ctx)))
}

// isReleaseRecord tells whether a request is about the Secret in which Helm
// keeps a revision of a release (helm.sh/helm/v3 pkg/storage/driver/secrets.go).
func isReleaseRecord(req *http.Request) bool {
	return req.Method == http.MethodPut && strings.HasPrefix(path.Base(req.URL.Path), "sh.helm.release.v1.")
}

// writes tells whether a request may change something.
func writes(req *http.Request) bool {
	switch req.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}

// deliver sends a request, and lets a write that is on its way come to its end
// when the request's context ends.
func deliver(base http.RoundTripper, req *http.Request) (*http.Response, error) {
	if !writes(req) {
		return base.RoundTrip(req)
	}
	if req.Context().Err() != nil {
		return nil, context.Cause(req.Context())
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(req.Context()))
	stop := context.AfterFunc(req.Context(), func() {
		t := time.AfterFunc(finish, func() { cancel(context.Cause(req.Context())) })
		context.AfterFunc(ctx, func() { t.Stop() })
	})
	end := func() { stop(); cancel(nil) }
	return endWithBody(end)(base.RoundTrip(req.WithContext(ctx)))
}

// endWithBody calls end when the response was read, or at once without one.
func endWithBody(end func()) func(*http.Response, error) (*http.Response, error) {
	return func(resp *http.Response, err error) (*http.Response, error) {
		if err != nil {
			end()
			return nil, err
		}
		resp.Body = &body{resp.Body, end}
		return resp, nil
	}
}

// body calls end when it is closed.
type body struct {
	io.ReadCloser
	end func()
}

func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// Notify tells the attempt's reporter what the hold tells, and keeps denials.
func (l *Step) Notify(n hold.Notice) {
	a := l.Attempt.Load()
	if a == nil {
		return
	}
	switch n.Event {
	case hold.Denied:
		a.deny(n)
		return
	case hold.StatusChanged:
		a.Reporter.Report(runner.Report{Type: runner.TypeWebhook, Webhook: diagnosis.Of(n.Status)})
		return
	case hold.Held, hold.Released:
	}
	w := &runner.Webhook{Name: nameOf(n.Fault), Service: n.Fault.ServiceKey(), Cause: n.Fault.Cause, Explanation: n.Fault.Explain()}
	report := runner.Report{Type: runner.TypeHeld, Object: n.Request.String(), Webhook: w}
	if n.Event == hold.Released {
		a.released(n)
		report.Type = runner.TypeReleased
		w.HeldSeconds, w.Sends = n.Held.Seconds(), n.Sends
		report.Error = givenUp(n.Err)
	}
	a.Reporter.Report(report)
}

// nameOf is how events name what a fault is about: a webhook, or the API server
// that does not take requests, or not of this kind.
func nameOf(f webhook.Fault) string {
	if f.Webhook == "" && (f.Kind == webhook.Server || f.Kind == webhook.Definition) {
		return runner.APIServer
	}
	return f.Webhook
}

// Warn hands the API server's warnings to the attempt's log.
func (l *Step) Warn(message string) {
	if a := l.Attempt.Load(); a != nil {
		a.Reporter.Report(runner.Report{Type: runner.TypeLog, Message: "warning: " + message})
	}
}

// givenUp says why a request is held no longer; the rest of a hold.Error is in
// the report already.
func givenUp(err error) string {
	var held *hold.Error
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &held):
		return err.Error()
	case held.Cause != nil:
		return held.Cause.Error()
	default:
		return "not answered within " + held.Limit.String()
	}
}
