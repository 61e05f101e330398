package probe

import (
	"context"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/match"
)

// ignoreReason is why admission says nothing of a webhook that may fail.
const ignoreReason = "failurePolicy Ignore lets objects pass whether it answers or not; a deny or mutate canary would show it"

// judgeCanary says what the answer to a canary shows of the webhook.
func (p *Probe) judgeCanary(ctx context.Context, c Canary, d dryRun, a answer) (Outcome, error) {
	switch {
	case a.fault.Class == webhook.Denied && c.Want == Deny:
		return p.judgeDenial(ctx, c, d, a.fault), nil
	case a.fault.Class == webhook.Denied:
		if p.deniedBy(ctx, d, a.fault) == deniedByOther {
			return missing(fmt.Sprintf("webhook %q, which is not meant, denies the %s: %s", a.fault.Webhook, c, a.fault.Cause)), nil
		}
		return Outcome{}, &RefusedError{Canary: c, Webhook: a.fault.Webhook, Message: a.fault.Cause}
	case a.fault.Kind != "":
		return p.failed(a.fault), nil
	case a.rights && p.forbiddenFor() > forbiddenGrace:
		return Outcome{}, &RefusedError{Canary: c, Forbidden: true, Message: a.forbidden}
	case a.absent != "" || a.forbidden != "":
		return missing(fmt.Sprintf("%s: %s", c, a.absent+a.forbidden)), nil
	case a.refusal != "" && p.mutable(ctx, d): // a change that is still to come may make it valid
		return missing(fmt.Sprintf("the API server refuses the %s: %s", c, a.refusal)), nil
	case a.refusal != "":
		return Outcome{}, &RefusedError{Canary: c, Message: a.refusal}
	}
	switch {
	case c.Want == Deny && p.entry.FailurePolicy == admissionv1.Ignore:
		return missing(fmt.Sprintf("the %s is admitted: the webhook gave no answer, which its failurePolicy Ignore lets pass, or it does not deny it", c)), nil
	case c.Want == Deny:
		return missing(fmt.Sprintf("the %s is admitted", c)), nil
	case c.Want == Mutate && p.entry.Kind == webhook.Mutating:
		return p.judgeMutation(ctx, c, d, a)
	}
	return p.admitted(d), nil
}

// forbiddenFor is for how long the user is known to lack a right.
func (p *Probe) forbiddenFor() time.Duration {
	if p.forbiddenSince.IsZero() {
		p.forbiddenSince = time.Now()
	}
	return time.Since(p.forbiddenSince)
}

// judgeDenial says what it shows that somebody denies a deny canary.
func (p *Probe) judgeDenial(ctx context.Context, c Canary, d dryRun, f webhook.Fault) Outcome {
	switch who := p.deniedBy(ctx, d, f); {
	case who == deniedBySelf, who != deniedByOther && p.askedBefore(ctx, d, f):
		return Outcome{State: Proven, Reason: f.Cause}
	case who == deniedByNamesake:
		return unproven(fmt.Sprintf("the %s is denied by %q, a name that another webhook has as well", c, f.Webhook))
	case who == deniedByWanted:
		return unproven(fmt.Sprintf("the %s is denied by webhook %q, which shows nothing of this one", c, f.Webhook))
	default:
		return missing(fmt.Sprintf("the %s is denied by webhook %q, which is not meant: %s", c, f.Webhook, f.Cause))
	}
}

// judgeMutation says what the changes to a mutate canary show.
func (p *Probe) judgeMutation(ctx context.Context, c Canary, d dryRun, a answer) (Outcome, error) {
	if a.object == nil {
		return Outcome{}, &RefusedError{Canary: c, Message: "an object of its name exists; give the canary another name"}
	}
	holds, err := c.Expect.Holds(a.object, d.object)
	switch {
	case err != nil:
		return missing(fmt.Sprintf("the %s: %s: %v", c, c.Expect, err)), nil
	case !holds:
		return missing(fmt.Sprintf("the %s is admitted, but this is false: %s", c, c.Expect)), nil
	case p.entry.FailurePolicy != admissionv1.Ignore:
		return p.admitted(d), nil
	}
	for _, e := range p.config.Known {
		if e.Kind == webhook.Mutating && !e.Is(p.entry) && p.config.Wanted(e) && p.concerns(ctx, e, d) {
			return unproven(fmt.Sprintf("the %s is changed by it or by webhook %q", c, e.Name)), nil
		}
	}
	return Outcome{State: Proven, Reason: c.Expect.String()}, nil
}

// judgeObject says what the answer shows to an object of which nothing is expected.
func (p *Probe) judgeObject(ctx context.Context, d dryRun, a answer) Outcome {
	switch {
	case a.fault.Class == webhook.Denied:
		if p.deniedBy(ctx, d, a.fault) == deniedBySelf || p.askedBefore(ctx, d, a.fault) {
			return Outcome{State: Proven, Reason: "it denies: " + a.fault.Cause}
		}
		return unproven(fmt.Sprintf("webhook %q denies the object that it was asked with: %s", a.fault.Webhook, a.fault.Cause))
	case a.fault.Kind != "":
		return p.failed(a.fault)
	case a.refusal != "" && p.entry.Kind == webhook.Mutating:
		return p.admitted(d) // mutating webhooks were asked before
	case a.refusal != "":
		o := unproven("the object that it was asked with is not valid: " + a.refusal)
		if p.schemaless && d.object.GetName() == "" { // it was made up: others have names
			o.Forbidden, o.Reason = true, o.Reason+"; its CustomResourceDefinition, which says what is valid, may not be read"
		}
		return o
	case a.absent != "" || a.forbidden != "":
		return a.unproven("")
	}
	return p.admitted(d)
}

// admitted says what it shows that an object passed the webhook.
func (p *Probe) admitted(d dryRun) Outcome {
	switch {
	case p.entry.FailurePolicy == admissionv1.Ignore:
		return unproven(ignoreReason)
	case d.verdict.Outcome != match.Calls:
		o := unproven("it may not have been asked: " + d.verdict.Reason)
		o.Forbidden = p.config.Unlabelled && d.request.Namespace != "" && !selectsAll(p.entry.NamespaceSelector)
		return o
	}
	return Outcome{State: Proven}
}

// selectsAll reports whether a selector asks for no label.
func selectsAll(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0
}

// failed says that the call to a webhook failed.
func (p *Probe) failed(f webhook.Fault) Outcome {
	o := Outcome{State: Missing, Reason: f.Cause, Fault: f}
	if f.Kind != webhook.Server && f.Kind != webhook.Definition && !p.entry.Matches(f) {
		o.Reason = fmt.Sprintf("webhook %q, which is asked too, gives no answer: %s", f.Webhook, f.Cause)
	}
	return o
}

// denialSource says who denied an object, seen from the webhook that is asked.
type denialSource int

const (
	deniedByOther    denialSource = iota // none of those that are wanted
	deniedByWanted                       // another one that is wanted
	deniedByNamesake                     // it, or another one of its name
	deniedBySelf
)

func (p *Probe) deniedBy(ctx context.Context, d dryRun, f webhook.Fault) denialSource {
	who := deniedByOther
	if f.Webhook == p.entry.Name {
		who = deniedBySelf
	}
	for _, e := range p.config.Known {
		if e.Name != f.Webhook || e.Is(p.entry) || !p.concerns(ctx, e, d) {
			continue
		}
		switch {
		case who == deniedBySelf:
			who = deniedByNamesake
		case who == deniedByOther && p.config.Wanted(e):
			who = deniedByWanted
		}
	}
	return who
}

// askedBefore reports whether the webhook was asked, and let the object pass, before
// another one denied it: it is mutating, and that is validating; or whether it
// must have been the one that denied it.
func (p *Probe) askedBefore(ctx context.Context, d dryRun, f webhook.Fault) bool {
	if p.entry.Kind != webhook.Mutating || p.admitted(d).State != Proven {
		return false
	}
	known := p.entry.Name == f.Webhook
	for _, e := range p.config.Known {
		if e.Name != f.Webhook || e.Is(p.entry) || !p.concerns(ctx, e, d) {
			continue
		}
		if e.Kind != webhook.Validating {
			return false
		}
		known = true
	}
	return known
}

// mutable reports whether any webhook may change an object.
func (p *Probe) mutable(ctx context.Context, d dryRun) bool {
	return slices.ContainsFunc(p.config.Known, func(e webhook.Entry) bool { return e.Kind == webhook.Mutating && p.concerns(ctx, e, d) })
}

func (p *Probe) concerns(ctx context.Context, e webhook.Entry, d dryRun) bool {
	return e.Kind != webhook.Conversion && p.config.Matcher.Match(ctx, e, d.request).Outcome != match.Skips
}
