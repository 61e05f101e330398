package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/match"
)

// webhookGuardsItself finds webhooks that cannot come back once they are down. It asks
// with requests that are made up, and tells only of those that are called for certain.
var webhookGuardsItself = Check{
	Rule: finding.Rule{
		ID: "webhook-guards-itself", Severity: finding.Warning,
		Summary: "A webhook with failurePolicy Fail guards what it needs itself.",
		Explanation: "When its last pod is gone, what it needs to start is refused for want of its answer: its own pods, the Secrets that Helm and it write, Leases, " +
			"or pods of kube-system. Nobody but a person can end that. It is an error when the webhook is down now and its own pods are guarded.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		guards := func(h hook) []need { return c.guarded(ctx, c.matcher(ctx), h) }
		var found []finding.Finding
		for _, g := range alike(c.hooks(ctx), func(h hook) string { return texts(guards(h)) }) {
			found = append(found, c.guardOf(g, guards(g[0])))
		}
		return found
	},
}

// guardOf tells of webhooks of one configuration that guard the same.
func (c *Cluster) guardOf(group []hook, guarded []need) finding.Finding {
	h := group[0]
	f := finding.Finding{
		Object:  h.Source().String(),
		Message: fmt.Sprintf("%s guards what it needs itself, and fails closed: %s", named(group), texts(guarded)),
		Hint:    exclusion(guarded),
	}
	for _, h := range group {
		f.Evidence = append(f.Evidence,
			h.evidence("failurePolicy", string(h.FailurePolicy)),
			h.evidence("namespaceSelector", metav1.FormatLabelSelector(h.NamespaceSelector)))
	}
	for _, n := range guarded {
		f.Evidence = append(f.Evidence, h.evidence("rules", n.reason))
	}
	if o := h.outage(); o.is() && slices.ContainsFunc(guarded, func(n need) bool { return n.own }) {
		f.Severity = finding.Error
		f.Message += "; it is down, and its pods cannot be made"
		f.Hint = "set its failurePolicy to Ignore until its pods run; then " + f.Hint
		f.Evidence = append(f.Evidence, finding.Evidence{Object: o.Source.String(), Field: o.field(), Value: o.value()})
	}
	return f
}

// exclusion says how to leave out of a webhook what it needs itself. No namespaceSelector
// keeps what has no namespace from a webhook (k8s.io/api admissionregistration/v1,
// ValidatingWebhook.NamespaceSelector).
func exclusion(guarded []need) string {
	var namespaces, ways []string
	reviews := false
	for _, n := range guarded {
		reviews = reviews || n.review
		if !n.system && n.request.Namespace != "" && !slices.Contains(namespaces, n.request.Namespace) {
			namespaces = append(namespaces, n.request.Namespace)
		}
	}
	slices.Sort(namespaces)
	if slices.ContainsFunc(guarded, func(n need) bool { return n.system }) && !slices.Contains(namespaces, metav1.NamespaceSystem) {
		namespaces = append(namespaces, metav1.NamespaceSystem)
	}
	if len(namespaces) > 0 {
		ways = append(ways, fmt.Sprintf("leave the %s out, by a namespaceSelector with kubernetes.io/metadata.name NotIn [%s]",
			plural(len(namespaces), "namespace"), strings.Join(namespaces, " ")))
	}
	if reviews {
		ways = append(ways, "leave tokenreviews out of its rules, or by a matchCondition")
	}
	return strings.Join(ways, ", and ")
}

// texts names what is needed.
func texts(needs []need) string {
	var all []string
	for _, n := range needs {
		all = append(all, n.text)
	}
	return sentence(all)
}

// guarded are the things that a webhook needs and that it is called for itself. One that
// is called by a URL runs elsewhere: what it needs is not known.
func (c *Cluster) guarded(ctx context.Context, m *match.Matcher, h hook) []need {
	if h.Kind == webhook.Conversion || h.FailurePolicy != admissionv1.Fail || h.Client.Service == nil || h.outage().gone() {
		return nil
	}
	var guarded []need
	for _, n := range c.needs(ctx, h) {
		v := m.Match(ctx, h.Entry, n.request)
		n.reason = v.Reason
		if v.Outcome == match.Calls || n.review && v.Outcome == match.Maybe && strings.HasPrefix(v.Reason, "API servers send no") && c.sendsReviews(ctx) {
			guarded = append(guarded, n)
		}
	}
	return guarded
}

// sendsReviews reports whether the API server sends reviews of tokens and access to
// webhooks, as those before Kubernetes 1.37 do (KEP-5793).
func (c *Cluster) sendsReviews(ctx context.Context) bool {
	return once(c, "sends reviews", func() bool {
		v, err := c.serverVersion(ctx)
		return err == nil && v < 37
	})
}
