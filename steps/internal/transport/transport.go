// Package transport is what the requests of a step go through: a hold for webhooks
// that cannot answer yet, the end of the step's attempt, and the care for requests
// that must not be cut off, such as the record of a Helm release. It says of an
// attempt's error what was held or denied meanwhile.
//
// It does not know what a request is for, and decides nothing about webhooks:
// package webhook/hold does.
package transport

import (
	"errors"
	"net/http"
	"time"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/diagnosis"
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

// Wrap puts the attempt's transport around a cluster's: outermost the end of the
// attempt, then the hold, innermost the care for writes on their way.
func (a *Attempt) Wrap(base http.RoundTripper) http.RoundTripper {
	var inner http.RoundTripper = roundTripper(func(req *http.Request) (*http.Response, error) {
		if a.Sends != nil && writes(req) {
			a.Sends()
		}
		return deliver(base, req)
	})
	if a.Hold.Gate != nil {
		held := a.Hold // each client has a base of its own
		held.Base, held.Notify = inner, a.Notify
		inner = &held
	}
	return roundTripper(func(req *http.Request) (*http.Response, error) { return a.bound(inner, req) })
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// bound ends a request with the attempt, except for those past its end, and for the
// record of a Helm release: a cancelled install is written down as failed, and not
// left pending for ever.
func (a *Attempt) bound(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	switch {
	case req.Context().Value(pastEnd{}) != nil:
		return next.RoundTrip(req)
	case req.Method == http.MethodPut && isReleaseRecord(req):
		return send(req.Context(), a.ctx, record, next, req)
	}
	return send(req.Context(), a.ctx, 0, next, req)
}

// Notify tells the attempt's reporter what the hold tells, and keeps denials.
func (a *Attempt) Notify(n hold.Notice) {
	switch n.Event {
	case hold.Denied:
		a.note(n)
		return
	case hold.StatusChanged:
		a.reporter.Report(runner.Report{Type: runner.TypeWebhook, Webhook: diagnosis.Of(n.Status)})
		return
	case hold.Held, hold.Released:
	}
	w := &runner.Webhook{Name: nameOf(n.Fault), Service: n.Fault.ServiceKey(), Cause: n.Fault.Cause, Explanation: n.Fault.Explain()}
	report := runner.Report{Type: runner.TypeHeld, Object: n.Request.String(), Webhook: w}
	if n.Event == hold.Released {
		a.note(n)
		report.Type = runner.TypeReleased
		w.HeldSeconds, w.Sends = n.Held.Seconds(), n.Sends
		report.Error = givenUp(n.Err)
	}
	a.reporter.Report(report)
}

// nameOf is how events name what a fault is about: a webhook, or the API server
// that does not take requests, or not of this kind.
func nameOf(f webhook.Fault) string {
	if f.Webhook == "" && (f.Kind == webhook.Server || f.Kind == webhook.Definition) {
		return runner.APIServer
	}
	return f.Webhook
}

// Log tells the attempt's reporter something for people.
func (a *Attempt) Log(message string) {
	a.reporter.Report(runner.Report{Type: runner.TypeLog, Message: message})
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
