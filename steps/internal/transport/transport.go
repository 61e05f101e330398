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
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/diagnosis"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
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

// Attempt is one run of a step's action. It holds the run's requests for webhooks,
// tells the reporter of it, ends them with the run's context, and knows what became
// of them.
type Attempt struct {
	// Hold holds requests; without a Gate nothing is held.
	Hold hold.Transport
	// Sends is called before each write; it may be nil.
	Sends func()

	ctx      context.Context
	reporter runner.Reporter

	mu sync.Mutex
	// denials are what webhooks refused, in the order of the answers.
	denials []hold.Notice
	// inVain is the first hold that was given up.
	inVain *hold.Error
	// longest is the longest hold, and fault its cause.
	longest time.Duration
	fault   webhook.Fault
}

// Begin returns an attempt whose requests end with ctx.
func Begin(ctx context.Context, r runner.Reporter) *Attempt {
	return &Attempt{ctx: ctx, reporter: r}
}

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

// note keeps what a hold tells of that an error of the attempt may have to say.
func (a *Attempt) note(n hold.Notice) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n.Event == hold.Denied {
		a.denials = append(a.denials, n)
		return
	}
	if n.Held > a.longest {
		a.longest, a.fault = n.Held, n.Fault
	}
	if held := (*hold.Error)(nil); a.inVain == nil && errors.As(n.Err, &held) {
		a.inVain = held
	}
}

// Explain makes the error with which the attempt ended say what was held, for which
// webhook, and which objects webhooks denied.
func (a *Attempt) Explain(err error, x *Explainer) error {
	if err == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.nameDenied(a.nameHeld(err, x))
}

// nameDenied adds to err the objects that it is about, where it does not name them:
// the API server's answer does not, and Helm adds nothing. The caller holds mu.
func (a *Attempt) nameDenied(err error) error {
	var texts []string
	for _, n := range a.denials {
		text := n.Request.String() + ": " + n.Fault.Message
		if strings.Contains(err.Error(), n.Fault.Message) && !strings.Contains(err.Error(), text) {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return err
	}
	return kubeerr.Reword(strings.Join(texts, "; "), err)
}

// nameHeld makes an error say which webhook requests were held for when the
// attempt ended: first, for that is why a wait or a hook came to no end, unless
// another attempt would fail by itself. The caller holds mu.
func (a *Attempt) nameHeld(err error, x *Explainer) error {
	if _, held := errors.AsType[*hold.Error](err); held {
		return x.Explain(err)
	}
	timeout := (*runner.TimeoutError)(nil)
	late := errors.As(err, &timeout)
	switch {
	case a.ctx.Err() != nil && !late:
		return err // somebody stopped the run
	case a.inVain != nil && late:
		why := *a.inVain
		why.Cause = timeout
		return both(x.Explain(&why), err)
	case a.inVain != nil && !runner.IsPermanent(err):
		return both(x.stopped(a.inVain), err)
	case a.inVain != nil:
		return both(err, x.stopped(a.inVain))
	case late && timeout.After > 0 && a.longest > timeout.After/2:
		return fmt.Errorf("%w; %s of that were spent on %s", err, a.longest.Round(time.Second), subject(a.fault))
	}
	return err
}

// both is what ended a step, and what else its user must know.
func both(first, second error) error {
	return kubeerr.Reword(first.Error()+"\n"+second.Error(), first, second)
}
