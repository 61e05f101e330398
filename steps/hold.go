package steps

import (
	"errors"
	"fmt"

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
	f := held.Fault
	name := "a webhook"
	if f.Webhook != "" {
		name = fmt.Sprintf("webhook %q", f.Webhook)
	}
	if key := f.ServiceKey(); key != "" {
		name += " (Service " + key + ")"
	}
	last := f.Cause
	if r, missing := held.Standing.Ladder.Missing(); missing && r.Reason != f.Cause {
		last += "; " + r.String()
	}
	if owner := x.owners.Of(held.Standing.Owner); owner != "" {
		last += "; it belongs to " + owner
	}
	timeout := &runner.TimeoutError{After: limit, For: name + " to judge " + held.Request.String(), Last: last}
	return &heldInVain{runner.WithHint(timeout, x.owners.Hint(held.Standing, f)), err, held, x.gate}
}

// heldInVain is a timeout whose chain still has the client's own error.
type heldInVain struct {
	error
	client error
	held   *hold.Error
	gate   *hold.Gate
}

func (e *heldInVain) Unwrap() []error { return []error{e.error, e.client} }

// WebhookFault is what the API server said last, for webhook.ClassifyError.
func (e *heldInVain) WebhookFault() webhook.Fault { return e.held.Fault }

// Wake ends the delay before the next attempt when the webhook can be called.
func (e *heldInVain) Wake() <-chan struct{} { return e.gate.Ready(e.held) }
