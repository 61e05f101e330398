package steps

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/hold"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// explainer says why a request was held in vain, in the terms of a plan.
type explainer struct {
	plan *plan.Plan
	// namespace is that of releases whose step names none.
	namespace string
	gate      *hold.Gate
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
	if owner := x.ownerOf(held.Standing); owner != "" {
		last += "; it belongs to " + owner
	}
	timeout := &runner.TimeoutError{After: limit, For: name + " to judge " + held.Request.String(), Last: last}
	return &heldInVain{runner.WithHint(timeout, x.hintFor(held)), err, held, x.gate}
}

// heldInVain is a timeout whose chain still has the client's own error.
type heldInVain struct {
	error
	client error
	held   *hold.Error
	gate   *hold.Gate
}

func (e *heldInVain) Unwrap() []error { return []error{e.error, e.client} }

// Wake ends the delay before the next attempt when the webhook can be called.
func (e *heldInVain) Wake() <-chan struct{} { return e.gate.Ready(e.held) }

// ownerOf says whose a webhook is and whether this plan installs it; "" when
// nothing is known.
func (x *explainer) ownerOf(st survey.Standing) string {
	owner := st.Owner.String()
	if owner == "" {
		return ""
	}
	if step := x.installer(st.Owner); step != "" {
		return fmt.Sprintf("%s, which step %q installs", owner, step)
	}
	return owner + ", which this plan does not install"
}

// installer is the step that brings what an owner owns; "" when the plan has none.
func (x *explainer) installer(o webhook.Owner) string {
	for _, s := range x.plan.Steps {
		if s.Helm != nil && o.Release != "" && o.Release == cmp.Or(s.Helm.Namespace, x.namespace)+"/"+s.ReleaseName() {
			return s.Name
		}
	}
	return ""
}

// hintFor says what people can do about a webhook that gave no answer.
func (x *explainer) hintFor(e *hold.Error) string {
	f, st := e.Fault, e.Standing
	foreign := st.Owner.String() != "" && x.installer(st.Owner) == ""
	missing, _ := st.Ladder.Missing()
	switch {
	case f.Kind == webhook.Conversion:
		return "the CRD's conversion webhook must run before its objects can be read or written"
	case missing.Rung == webhook.Trusted:
		return "the operator, or cert-manager's cainjector, fills the CA bundle in: look at its log"
	case foreign && (missing.Rung == webhook.Routed || missing.Rung == webhook.Backed):
		return fmt.Sprintf("mend what should answer at Service %s, or, if nothing should any more, the webhook is stale: kubectl delete %s %s",
			cmp.Or(st.Service(), f.ServiceKey()), resourceOf(st.Kind), st.Configuration)
	case missing.Source.Kind == "Pod":
		return fmt.Sprintf("look at the pod: kubectl describe pod -n %s %s", missing.Source.Namespace, missing.Source.Name)
	case f.Class == webhook.Misconfigured:
		return "this does not heal by waiting: look at the webhook's configuration, certificate and Service"
	case f.Service != "":
		return fmt.Sprintf("look at the pods behind it (kubectl get endpointslices,pods -n %s); if nothing should answer any more, its webhook configuration is stale and can be deleted", f.Namespace)
	default:
		return "find its configuration with: kplan webhooks"
	}
}

func resourceOf(k webhook.Kind) string {
	if k == webhook.Mutating {
		return "mutatingwebhookconfiguration"
	}
	return "validatingwebhookconfiguration"
}
