package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/match"
)

// Call is what the API server does about one webhook when an object is written.
type Call struct {
	// Configuration is the object that configures it, as Kind/name.
	Configuration string `json:"configuration"`
	// Path is its place there: webhooks[0].
	Path string `json:"path"`
	// Webhook is its own name.
	Webhook string `json:"webhook"`
	// Operation is CREATE or UPDATE.
	Operation admissionv1.OperationType `json:"operation"`
	// Outcome is calls, skips, rejects or maybe.
	Outcome match.Outcome `json:"outcome"`
	// Reason says why, and for one that is skipped which of rules, namespaceSelector,
	// objectSelector, matchConditions and matchPolicy leaves the object out.
	Reason string `json:"reason"`
	// Trouble says why a call cannot succeed, and what follows from it; "" when nothing
	// that can be read speaks against it, or it is not called.
	Trouble string `json:"trouble,omitempty"`
}

// WhyNotCalled says for each webhook of the cluster whether it is called when an object
// is created, and when it is updated, and if not, which of its predicates leaves the object
// out. It answers for the object as it is given: what defaults and other webhooks
// change before, it does not know. Calls are in the order of configurations and their
// webhooks, CREATE before UPDATE. The error says that the object's kind is not served, or that
// the cluster cannot be asked.
//
// It is what kplan doctor --why-not-called FILE prints.
func (c *Cluster) WhyNotCalled(ctx context.Context, o *unstructured.Unstructured) ([]Call, error) {
	requests, resources, err := c.writes(ctx, o)
	if err != nil {
		return nil, err
	}
	m := &match.Matcher{Cluster: match.Cluster{Resources: resources, Labels: c.matcher(ctx).Cluster.Labels}}
	var calls []Call
	for _, h := range c.hooks(ctx) {
		if h.Kind == webhook.Conversion {
			continue
		}
		for _, r := range requests {
			v := m.Match(ctx, h.Entry, r)
			call := Call{
				Configuration: h.Source().String(), Path: h.path, Webhook: h.Name,
				Operation: r.Operation, Outcome: v.Outcome, Reason: exact(ctx, m, h.Entry, r, v),
			}
			if v.Outcome == match.Calls || v.Outcome == match.Maybe {
				call.Trouble = c.trouble(h)
			}
			calls = append(calls, call)
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return calls, nil
}

// exact adds to why a webhook is skipped that matchPolicy Equivalent would have it called.
func exact(ctx context.Context, m *match.Matcher, e webhook.Entry, r match.Request, v match.Verdict) string {
	if v.Outcome != match.Skips || e.MatchPolicy != admissionv1.Exact {
		return v.Reason
	}
	e.MatchPolicy = admissionv1.Equivalent
	if other := m.Match(ctx, e, r); other.Outcome != match.Skips && !other.Resource.Empty() {
		return fmt.Sprintf("its rules name %s, and its matchPolicy Exact leaves %s out", other.Resource.Version, r.Resource.Version)
	}
	return v.Reason
}

// trouble says why a call cannot succeed.
func (c *Cluster) trouble(h hook) string {
	why := h.outage().Reason
	switch {
	case why != "":
	case h.bundleMissing():
		why = "the CA bundle is empty"
	default:
		if fault := bundleFault(h.Client.CABundle, c.Now); fault != "" {
			why = "the CA bundle " + fault
		} else if h.Client.Service != nil && h.Backing != nil {
			why = h.misfit(c.Now).text
		}
	}
	switch {
	case why == "":
		return ""
	case h.failsOpen():
		return why + "; its failurePolicy is Ignore, so the request goes past it"
	default:
		return why + "; its failurePolicy is Fail, so the request is refused"
	}
}

// writes are the requests that create and update an object, and what is equivalent to its
// resource.
func (c *Cluster) writes(ctx context.Context, o *unstructured.Unstructured) ([]match.Request, *match.Resources, error) {
	gvk := o.GroupVersionKind()
	lists := c.served(ctx).lists
	if len(lists) == 0 {
		return nil, nil, fmt.Errorf("asking which kinds are served: %s", sentence(c.unreadable()))
	}
	var resources match.Resources
	if err := resources.AddDiscovery(lists...); err != nil {
		return nil, nil, fmt.Errorf("reading which kinds are served: %w", err)
	}
	resource, ok := resourceOf(lists, gvk)
	if !ok {
		return nil, nil, fmt.Errorf("no kind %s of %s is served", gvk.Kind, gvk.GroupVersion())
	}
	gvr := gvk.GroupVersion().WithResource(resource.Name)
	if crd, _ := c.get(ctx, definitionResource, "", gvr.GroupResource().String()); crd != nil {
		if err := resources.AddCRD(crd); err != nil {
			return nil, nil, err
		}
	}
	namespace := ""
	if resource.Namespaced {
		namespace = cmp.Or(o.GetNamespace(), slices.Concat(c.namespaces, []string{metav1.NamespaceDefault})[0])
	}
	create := match.Request{Operation: admissionv1.Create, Resource: gvr, Kind: gvk, Namespace: namespace, Object: o, Planned: true}
	update := create
	update.Operation, update.OldObject = admissionv1.Update, o
	if o.GetName() != "" { // else generateName names it
		if live, _ := c.get(ctx, gvr, namespace, o.GetName()); live != nil {
			update.OldObject = live
		}
	}
	return []match.Request{create, update}, &resources, nil
}

// resourceOf finds the resource of a kind.
func resourceOf(lists []*metav1.APIResourceList, gvk schema.GroupVersionKind) (metav1.APIResource, bool) {
	for _, l := range lists {
		for _, r := range l.APIResources {
			if l.GroupVersion == gvk.GroupVersion().String() && r.Kind == gvk.Kind && !strings.Contains(r.Name, "/") {
				return r, true
			}
		}
	}
	return metav1.APIResource{}, false
}
