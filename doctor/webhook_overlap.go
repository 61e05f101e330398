package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/webhook"
)

// webhookOverlap finds an operator that is installed twice, where neither leaves the
// other's objects alone.
var webhookOverlap = Check{
	Rule: finding.Rule{
		ID: "webhook-overlap", Severity: finding.Warning,
		Summary: "Two installations of an operator guard the same custom resources.",
		Explanation: "Their webhooks have the same name or path, and rules that name the same custom resource, and no selector parts them: " +
			"each object is judged by both, by two versions perhaps, and both controllers may write it. " +
			"Wildcard rules, and webhooks of different programs on one resource, are no fault. The Leases say which of the two runs.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		var found []finding.Finding
		told := map[[2]webhook.Object]bool{}
		all := c.hooks(ctx)
		for i, a := range all {
			for _, b := range all[i+1:] {
				pair := [2]webhook.Object{a.Source(), b.Source()}
				if told[pair] || !twins(a, b) {
					continue
				}
				if resource := c.contested(ctx, a, b); resource != "" {
					told[pair] = true
					found = append(found, c.overlapOf(ctx, a, b, resource))
				}
			}
		}
		return found
	},
}

// commonPaths are those of many programs: to have the same says nothing.
var commonPaths = []string{"", "/", "/validate", "/mutate", "/webhook", "/convert"}

// twins reports whether two webhooks are the same one of two installations: the program
// chooses its name and path.
func twins(a, b hook) bool {
	if a.Kind != b.Kind || a.Kind == webhook.Conversion || a.Configuration == b.Configuration ||
		a.Client.Service == nil || b.Client.Service == nil || a.Service() == b.Service() ||
		a.Owner.Release != "" && a.Owner.Release == b.Owner.Release ||
		len(a.MatchConditions)+len(b.MatchConditions) > 0 { // which can part them
		return false
	}
	return a.Name == b.Name || a.servicePath() == b.servicePath() && !slices.Contains(commonPaths, a.servicePath())
}

func (h hook) servicePath() string {
	if h.Client.Service == nil || h.Client.Service.Path == nil {
		return ""
	}
	return *h.Client.Service.Path
}

// contested is the custom resource that both webhooks guard, in a namespace that both select;
// "" when there is none.
func (c *Cluster) contested(ctx context.Context, a, b hook) string {
	if disjoint(a.ObjectSelector, b.ObjectSelector) {
		return ""
	}
	for _, d := range c.definitions(ctx) {
		if !a.names(d, b) {
			continue
		}
		if d.Spec.Scope == string(admissionv1.ClusterScope) || c.meet(ctx, a.NamespaceSelector, b.NamespaceSelector) {
			return d.Name
		}
	}
	return ""
}

// names reports whether rules of both webhooks name a custom resource, and an operation
// that both are called for.
func (h hook) names(d definition, o hook) bool {
	for _, r := range h.Rules {
		for _, s := range o.Rules {
			if explicit(r, d) && explicit(s, d) && share(r.Operations, s.Operations) {
				return true
			}
		}
	}
	return false
}

// explicit reports whether a rule names a custom resource without wildcards.
func explicit(r admissionv1.RuleWithOperations, d definition) bool {
	return slices.Contains(r.APIGroups, d.Spec.Group) && slices.Contains(r.Resources, d.Spec.Names.Plural)
}

func share(a, b []admissionv1.OperationType) bool {
	return slices.Contains(a, admissionv1.OperationAll) || slices.Contains(b, admissionv1.OperationAll) ||
		slices.ContainsFunc(a, func(o admissionv1.OperationType) bool { return slices.Contains(b, o) })
}

// overlapOf tells of two webhooks that guard the same resource.
func (c *Cluster) overlapOf(ctx context.Context, a, b hook, resource string) finding.Finding {
	f := finding.Finding{
		Object:  a.Source().String(),
		Message: fmt.Sprintf("webhook %q is there twice, of %s and of %s (%s): both guard %s, and no selector parts them", a.Name, of(a), of(b), b.Configuration, resource),
		Hint:    "give each its own namespaces by a namespaceSelector, or remove one of the two operators",
	}
	for _, h := range []hook{a, b} {
		f.Evidence = append(f.Evidence,
			h.evidence("clientConfig.service", h.Service()+h.servicePath()),
			h.evidence("namespaceSelector", metav1.FormatLabelSelector(h.NamespaceSelector)))
	}
	f.Evidence = append(f.Evidence, c.leases(ctx, a.Client.Service.Namespace)...)
	if a.Client.Service.Namespace != b.Client.Service.Namespace {
		f.Evidence = append(f.Evidence, c.leases(ctx, b.Client.Service.Namespace)...)
	}
	return f
}

// of says whose a webhook is.
func of(h hook) string {
	if h.Owner.Release == "" {
		return "Service " + h.Service()
	}
	return h.Owner.String()
}

// leases says who leads in a namespace, and whether still.
func (c *Cluster) leases(ctx context.Context, namespace string) []finding.Evidence {
	var found []finding.Evidence
	for _, l := range all[coordinationv1.Lease](c.selected(ctx, coordinationv1.SchemeGroupVersion.WithResource("leases"), namespace, "", "")) {
		if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" || l.Spec.RenewTime == nil || len(found) == 3 {
			continue
		}
		state := "in force"
		var duration time.Duration
		if l.Spec.LeaseDurationSeconds != nil {
			duration = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
		}
		if c.Now.After(l.Spec.RenewTime.Add(duration)) {
			state = "expired"
		}
		found = append(found, finding.Evidence{
			Object: object("Lease", l.Namespace, l.Name), Field: "spec.holderIdentity", Value: *l.Spec.HolderIdentity + ", " + state,
		})
	}
	return found
}
