package transport

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/diagnosis"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/hold"
)

// Explainer says why a request was held in vain, in the terms of a plan.
type Explainer struct {
	Owners diagnosis.Owners
	Gate   *hold.Gate
}

// Explain says of a request that was held in vain why the webhook gave no
// answer, whose webhook it is, and what people can do.
func (x *Explainer) Explain(err error) error {
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
	return &heldInVain{runner.WithHint(timeout, x.hint(held)), err, held, x.Gate}
}

// last is what the last try met, the rung that is missing, and whose the webhook is.
func (x *Explainer) last(held *hold.Error) string {
	last := held.Fault.Cause
	if r, missing := held.Status.Ladder.Missing(); missing && r.Reason != last {
		last += "; " + diagnosis.Lacks(held.Status.Ladder)
	}
	if owner := x.Owners.Of(held.Status.Owner); owner != "" {
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

func (x *Explainer) hint(held *hold.Error) string {
	if held.Fault.Kind == webhook.Server {
		return "is the API server healthy? try kubectl get --raw '/readyz?verbose'"
	}
	return x.Owners.Hint(held.Status, held.Fault)
}

// stopped explains a hold that something else than its time ended.
func (x *Explainer) stopped(held *hold.Error) error {
	text := fmt.Sprintf("%s was held for %s: %s", held.Request, subject(held.Fault), x.last(held))
	return runner.WithHint(&stoppedHold{text, held}, x.hint(held))
}

// stoppedHold is a hold.Error in other words.
type stoppedHold struct {
	text string
	held *hold.Error
}

func (e *stoppedHold) Error() string               { return e.text }
func (e *stoppedHold) WebhookFault() webhook.Fault { return e.held.Fault }

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

// InVain says for a client why its request was held in vain, in one line. The API
// server's own words, which come before, have the cause of the last try.
func (x *Explainer) InVain(held *hold.Error) string {
	parts := []string{"held " + held.Held.Round(time.Second).String() + " in vain"}
	if lacks := diagnosis.Lacks(held.Status.Ladder); lacks != "" {
		parts = append(parts, lacks)
	}
	if owner := x.Owners.Of(held.Status.Owner); owner != "" {
		parts = append(parts, "it belongs to "+owner)
	}
	return strings.Join(append(parts, x.hint(held)), "; ")
}
