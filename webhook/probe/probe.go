// Package probe shows by dry runs through the API server that a webhook answers.
//
// Its evidence is positive only: a denial by the webhook, a change that only it
// makes, or the admission of an object that the API server cannot have admitted
// without asking it. Objects come from canaries, whose outcome is known
// beforehand, from objects that will be created anyway, or are made up from the
// schema of a kind that the webhook is called for.
//
// What a proof does not say: that another API server or another replica of the
// webhook would answer too, or that the next request is answered. Ask several
// times over fresh connections for that.
//
// The package persists nothing and never waits: ask again.
package probe

import (
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/match"
)

// State says what a probe showed of a webhook.
type State string

// The states.
const (
	// Proven: the webhook answered.
	Proven State = "proven"
	// Missing: it gave no answer, or not the expected one, and may do so later.
	Missing State = "missing"
	// Unproven: no dry run that can be made shows whether it answers.
	Unproven State = "unproven"
)

// Outcome is what a probe showed of a webhook.
type Outcome struct {
	State State
	// Reason says why, for people. It quotes the API server and webhooks.
	Reason string
	// Fault is why a call to the webhook failed; its Kind is empty when none did.
	Fault webhook.Fault
	// Canary was answered otherwise than expected, or could not be sent, though no
	// call failed; nil when it is not the reason for Missing.
	Canary *Canary
	// Forbidden says that Unproven is for want of rights: somebody who has more of
	// them could show whether the webhook answers.
	Forbidden bool
}

// or returns the outcome of another try after one that was Unproven; one that is for
// want of rights stays, unless the other try shows something.
func (o Outcome) or(another Outcome) Outcome {
	if o.Forbidden && another.State == Unproven {
		return o
	}
	return another
}

// Mapper knows which resources the API server serves. A meta.RESTMapper is one.
type Mapper interface {
	KindFor(schema.GroupVersionResource) (schema.GroupVersionKind, error)
	RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error)
}

// Config is what webhooks are asked with.
type Config struct {
	Mapper Mapper
	// Matcher predicts whom an object concerns. It should know the labels of
	// namespaces: what it is not sure of is no evidence.
	Matcher *match.Matcher
	// Known are all webhooks of the cluster, as far as they can be read: a denial
	// names its webhook, and others may have the same name.
	Known []webhook.Entry
	// Wanted tells which of them are to be proven. A deny canary may be denied by
	// any of those; nil means only the one that is asked.
	Wanted func(webhook.Entry) bool
	// Canaries are asked of every webhook that they concern.
	Canaries []Canary
	// Objects will be created later anyway. Namespaced ones have a namespace.
	Objects []*unstructured.Unstructured
	// Unlabelled says that the labels of namespaces may not be read.
	Unlabelled bool
}

const (
	// unserved is how long the kinds that a webhook is called for may be unknown to
	// the API server: an operator may bring them a moment after its webhooks.
	unservedGrace = 10 * time.Second
	// ungranted is how long the user may lack the right to create a canary, once that
	// was seen: the API server learns of new rights by watches.
	forbiddenGrace = 10 * time.Second
)

// Probe asks one webhook. It is not safe for concurrent use.
type Probe struct {
	config Config
	entry  webhook.Entry
	began  time.Time
	// samples are the objects that were made up; nil before the first time.
	samples []*unstructured.Unstructured
	// schemaless says that a CRD may not be read, so that objects of its kind lack
	// the fields that it requires.
	schemaless bool
	// lacking is since when the user is known to lack the right to create a canary.
	forbiddenSince time.Time
	// met are the canaries that concern the webhook, by index.
	concerned map[int]bool
}

// New makes a probe for a webhook.
func New(m Config, e webhook.Entry) *Probe {
	if m.Wanted == nil {
		m.Wanted = e.Is
	}
	return &Probe{config: m, entry: e, began: time.Now(), concerned: map[int]bool{}}
}

// Concerns reports whether the canary of an index was found to concern the webhook.
func (p *Probe) Concerns(canary int) bool { return p.concerned[canary] }

// Ask sends dry runs until one shows something. The client may hold requests.
// An error is a *RefusedError, the context's cause, or what the API server says
// against the request; a webhook that does not answer is an Outcome, unless the
// client's transport gave up waiting for it.
func (p *Probe) Ask(ctx context.Context, client dynamic.Interface) (Outcome, error) {
	if p.entry.Kind == webhook.Conversion {
		return p.askConversion(ctx, client)
	}
	if e := p.entry.SideEffects; e != admissionv1.SideEffectClassNone && e != admissionv1.SideEffectClassNoneOnDryRun {
		return unproven("its side effects forbid a dry run, which proves its configuration only"), nil
	}
	o, err := p.askCanaries(ctx, client)
	if err != nil || o.State != Unproven {
		return o, err
	}
	if p.entry.FailurePolicy == admissionv1.Ignore {
		return o, nil
	}
	for _, u := range p.config.Objects {
		more, err := p.askObject(ctx, client, u)
		if err != nil || more.State != Unproven {
			return more, err
		}
		o = o.or(more)
	}
	more, err := p.askSamples(ctx, client)
	return o.or(more), err
}

// askCanaries sends the canaries that concern the webhook. Each must meet what
// is expected of it.
func (p *Probe) askCanaries(ctx context.Context, client dynamic.Interface) (Outcome, error) {
	whole := unproven("no canary concerns it")
	if p.entry.FailurePolicy == admissionv1.Ignore {
		whole.Reason = ignoreReason
	}
	for i, c := range p.config.Canaries {
		d, err := p.prepare(ctx, c.Object)
		if err != nil {
			o := missing(c.String() + ": " + err.Error())
			o.Canary = &c
			return o, nil
		}
		if d.verdict.Outcome == match.Skips {
			continue
		}
		p.concerned[i] = true
		a, err := send(ctx, client, d)
		if err != nil {
			return Outcome{}, fmt.Errorf("%s: %w", c, err)
		}
		o, err := p.judgeCanary(ctx, c, d, a)
		switch {
		case err != nil:
			return Outcome{}, err
		case o.State == Missing:
			if o.Fault.Kind == "" {
				o.Canary = &c
			}
			return o, nil
		case o.State == Proven, whole.State == Unproven:
			whole = o
		}
	}
	return whole, nil
}

// askObject sends an object whose outcome is not known beforehand.
func (p *Probe) askObject(ctx context.Context, client dynamic.Interface, u *unstructured.Unstructured) (Outcome, error) {
	d, err := p.prepare(ctx, u)
	if err != nil {
		return unproven(err.Error()), nil
	}
	if d.verdict.Outcome == match.Skips {
		return unproven(d.verdict.Reason), nil
	}
	a, err := send(ctx, client, d)
	if err != nil {
		return Outcome{}, err
	}
	return p.judgeObject(ctx, d, a), nil
}

// maxSamples bounds how many kinds are tried.
const maxSamples = 4

// askSamples sends made-up objects.
func (p *Probe) askSamples(ctx context.Context, client dynamic.Interface) (Outcome, error) {
	if p.samples == nil {
		samples, reason, err := p.sampleObjects(ctx, client)
		if err != nil {
			return Outcome{}, err
		}
		if len(samples) == 0 {
			return reason, nil
		}
		p.samples = samples
	}
	var last Outcome
	for _, u := range p.samples {
		o, err := p.askObject(ctx, client, u)
		if err != nil || o.State != Unproven {
			return o, err
		}
		last = last.or(o)
	}
	return last, nil
}

// dryRun is an object to create by dry run, and what that means for the webhook.
type dryRun struct {
	object  *unstructured.Unstructured
	mapping *meta.RESTMapping
	request match.Request
	verdict match.Verdict
}

// prepare finds the resource of an object, and whether it concerns the webhook.
// The error says that the API server does not serve its kind.
func (p *Probe) prepare(ctx context.Context, u *unstructured.Unstructured) (dryRun, error) {
	gvk := u.GroupVersionKind()
	m, err := p.config.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return dryRun{}, err
	}
	d := dryRun{object: u, mapping: m}
	if m.Scope.Name() != meta.RESTScopeNameNamespace && u.GetNamespace() != "" {
		d.object = u.DeepCopy()
		d.object.SetNamespace("")
	}
	d.request = match.Request{
		Operation: admissionv1.Create, Resource: m.Resource, Kind: gvk, Namespace: d.object.GetNamespace(), Object: d.object,
		Planned: true, DryRun: true,
	}
	d.verdict = p.config.Matcher.Match(ctx, p.entry, d.request)
	return d, nil
}

func unproven(reason string) Outcome { return Outcome{State: Unproven, Reason: reason} }
func missing(reason string) Outcome  { return Outcome{State: Missing, Reason: reason} }
