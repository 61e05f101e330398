package steps

import (
	"errors"
	"fmt"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/webhook"
)

// explainHold says of a request that was held in vain what people can do.
func explainHold(err error) error {
	var held *webhook.HoldError
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
	timeout := &runner.TimeoutError{After: limit, For: name + " to judge " + held.Request.String(), Last: f.Cause}
	return runner.WithHint(&heldInVain{timeout, err}, hintFor(f))
}

// heldInVain is a timeout whose chain still has the client's own error.
type heldInVain struct {
	*runner.TimeoutError
	client error
}

func (e *heldInVain) Unwrap() []error { return []error{e.TimeoutError, e.client} }

func hintFor(f webhook.Fault) string {
	switch {
	case f.Kind == webhook.Conversion:
		return "the CRD's conversion webhook must run before its objects can be read or written"
	case f.Class == webhook.Misconfigured:
		return "this does not heal by waiting: look at the webhook's configuration, certificate and Service"
	case f.Service != "":
		return fmt.Sprintf("look at the pods behind it (kubectl get endpointslices,pods -n %s); if nothing should answer any more, its webhook configuration is stale and can be deleted", f.Namespace)
	default:
		return "find its configuration with: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations " +
			"-o custom-columns=NAME:.metadata.name,WEBHOOKS:.webhooks[*].name"
	}
}
