package steps

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/standing"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/hold"
)

// explainer says why a request was held in vain, in the terms of a plan.
type explainer struct {
	owners standing.Owners
	gate   *hold.Gate
}

// explain says of a request that was held in vain why the webhook gave no
// answer, whose webhook it is, and what people can do.
func (x *explainer) explain(err error) error {
	var held *hold.Error
	if err == nil || !errors.As(err, &held) {
		return err
	}
	limit := held.Limit
	if held.Cause != nil { // something else than a bound of the hold ended it
		var step *runner.TimeoutError
		if !errors.As(held.Cause, &step) {
			return err
		}
		limit = step.After
	}
	timeout := &runner.TimeoutError{After: limit, For: awaited(held.Fault) + held.Request.String(), Last: x.last(held)}
	return &heldInVain{runner.WithHint(timeout, x.hint(held)), err, held, x.gate}
}

// last is what the last try met, the rung that is missing, and whose the webhook is.
func (x *explainer) last(held *hold.Error) string {
	last := held.Fault.Cause
	if r, missing := held.Status.Ladder.Missing(); missing && r.Reason != last {
		last += "; " + standing.Lacks(held.Status.Ladder)
	}
	if owner := x.owners.Of(held.Status.Owner); owner != "" {
		last += "; it belongs to " + owner
	}
	return last
}

// awaited is what a request with a fault waited for, up to the request's name.
func awaited(f webhook.Fault) string {
	if nameOf(f) == runner.APIServer {
		return "the API server to take "
	}
	return subject(f) + " to judge "
}

// subject is the webhook that a fault is about, for people.
func subject(f webhook.Fault) string {
	if nameOf(f) == runner.APIServer {
		return "the API server"
	}
	name := "a webhook"
	if f.Webhook != "" {
		name = fmt.Sprintf("webhook %q", f.Webhook)
	}
	if key := f.ServiceKey(); key != "" {
		name += " (Service " + key + ")"
	}
	return name
}

func (x *explainer) hint(held *hold.Error) string {
	if held.Fault.Kind == webhook.Server {
		return "is the API server healthy? try kubectl get --raw '/readyz?verbose'"
	}
	return x.owners.Hint(held.Status, held.Fault)
}

// heldInVain is a timeout whose chain still has the client's own error.
type heldInVain struct {
	error
	client error
	held   *hold.Error
	gate   *hold.Gate
}

// Error is a summary of one line, and the API server's own text below it where
// that says more.
func (e *heldInVain) Error() string {
	raw := strings.TrimSpace(e.held.Fault.Message)
	if raw == "" || raw == e.held.Fault.Cause {
		return e.error.Error()
	}
	return e.error.Error() + "\n(API server: " + raw + ")"
}

func (e *heldInVain) Unwrap() []error { return []error{e.error, e.client} }

// WebhookFault is what the API server said last, for webhook.ClassifyError.
func (e *heldInVain) WebhookFault() webhook.Fault { return e.held.Fault }

// Wake ends the delay before the next attempt when the webhook can be called.
func (e *heldInVain) Wake() <-chan struct{} { return e.gate.Ready(e.held) }
