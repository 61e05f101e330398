package webhookgate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/diagnosis"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/match"
)

// target is which webhooks a step means.
type target struct {
	// what names them for people, and hint says why there may be none.
	what, hint string
	// wants tells them by what configures them; nil when it takes the step's files.
	wants func(webhook.Entry) bool
	// conversions says that it can contain conversion webhooks: CRDs are read.
	conversions bool
}

// targetOf reads which webhooks a step means.
func targetOf(owners diagnosis.Owners, spec plan.Webhook) (target, error) {
	t := target{
		hint:        "list what there is with: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
		conversions: spec.Configuration == "",
	}
	switch {
	case spec.All:
		t.what = "the webhooks of the cluster"
		t.wants = func(e webhook.Entry) bool {
			return e.Kind == webhook.Conversion || e.FailurePolicy == admissionv1.Fail
		}
	case spec.Release != "":
		release := cmp.Or(spec.Namespace, namespaceOf(owners, spec.Release), owners.Namespace) + "/" + spec.Release
		t.what = "webhooks of release " + release
		t.hint = "does the chart bring any? see them with: helm get manifest -n " + strings.Replace(release, "/", " ", 1)
		t.wants = func(e webhook.Entry) bool { return e.Owner.Release == release }
	case spec.Configuration != "":
		t.what = "webhook configuration " + spec.Configuration
		t.wants = func(e webhook.Entry) bool { return e.Configuration == spec.Configuration }
	case spec.Service != "":
		t.what = "webhooks at Service " + spec.Service
		t.wants = func(e webhook.Entry) bool { return e.Service() == spec.Service }
	case spec.Selector != "":
		s, err := labels.Parse(spec.Selector)
		if err != nil {
			return t, fmt.Errorf("selector %q: %w", spec.Selector, err)
		}
		t.what = "webhooks with labels " + spec.Selector
		t.wants = func(e webhook.Entry) bool { return s.Matches(labels.Set(e.Labels)) }
	case len(spec.Files) > 0:
		t.what = "webhooks for the objects in " + strings.Join(spec.Files, ", ")
	default:
		return t, errors.New("it is not said which webhooks are meant")
	}
	return t, nil
}

// namespaceOf finds the namespace of a release of the plan on the cluster; "" when none says it.
func namespaceOf(owners diagnosis.Owners, release string) string {
	for _, s := range owners.Steps() {
		if s.Helm != nil && s.ReleaseName() == release {
			return s.Helm.Namespace
		}
	}
	return ""
}

// matching tells which webhooks are meant. It asks nobody: the survey calls it.
func (a *run) matching(ctx context.Context, k *knowledge) func(webhook.Entry) bool {
	if a.target.wants != nil {
		return a.target.wants
	}
	var requests []match.Request
	for _, u := range a.objects.files {
		requests = append(requests, request(u, k.mapper(ctx), admissionv1.Create), request(u, k.mapper(ctx), admissionv1.Update))
	}
	return func(e webhook.Entry) bool {
		for _, r := range requests {
			if e.Kind == webhook.Conversion && e.Converts == r.Kind.GroupKind() {
				return true
			}
			if k.matcher.Match(ctx, e, r).Outcome != match.Skips {
				return true
			}
		}
		return false
	}
}

// request is the one that an apply of an object makes. The resource of a kind that
// is not served yet is guessed from its name, as its author most likely did.
func request(u *unstructured.Unstructured, m mapper, operation admissionv1.OperationType) match.Request {
	gvk := u.GroupVersionKind()
	r := match.Request{Operation: operation, Kind: gvk, Namespace: u.GetNamespace(), Object: u, Planned: true}
	mapping, err := m.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		r.Resource, _ = meta.UnsafeGuessKindToResource(gvk)
		return r
	}
	if r.Resource = mapping.Resource; mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		r.Namespace = ""
	}
	return r
}
