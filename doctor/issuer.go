package doctor

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/plan/finding"
)

var issuerNotReady = Check{
	Rule: finding.Rule{
		ID: "issuer-not-ready", Severity: finding.Error,
		Summary:     "An Issuer or ClusterIssuer of cert-manager is not ready.",
		Explanation: "No Certificate that names it is issued or renewed.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		var found []finding.Finding
		for _, name := range []string{"issuers", "clusterissuers"} {
			for _, o := range c.custom(ctx, certManager, name) {
				ready := conditionOf(o, "Ready")
				young := c.Now.Sub(latest(ready.since, o.GetCreationTimestamp().Time)) < issuing
				if ready.status == "True" || young || o.GetDeletionTimestamp() != nil {
					continue
				}
				found = append(found, finding.Finding{
					Object:   nameOf(o),
					Message:  "is not ready: " + cmp.Or(ready.why(), "nobody has looked at it"),
					Hint:     issuerHint(o, ready),
					Evidence: []finding.Evidence{ready.evidence(nameOf(o))},
				})
			}
		}
		return found
	},
}

func issuerHint(o *unstructured.Unstructured, ready condition) string {
	if ready.typ == "" {
		return "see whether the controller of cert-manager runs: kubectl get pods -A -l app.kubernetes.io/name=cert-manager"
	}
	return "see " + describe(o.GetKind(), o.GetNamespace(), o.GetName())
}

// issuer says what is wrong with the issuer of a Certificate; false when that is not
// known. Issuers of other groups than cert-manager's need not have a condition.
func (c *Cluster) issuer(ctx context.Context, certificate *unstructured.Unstructured) (l link, known bool) {
	name := field(certificate, "spec", "issuerRef", "name")
	kind := cmp.Or(field(certificate, "spec", "issuerRef", "kind"), "Issuer")
	group := cmp.Or(field(certificate, "spec", "issuerRef", "group"), certManager)
	r, ok := c.served(ctx).kind(group, kind)
	if !ok {
		why := fmt.Sprintf("it names %s %s, and %s serves no such kind", kind, name, group)
		return link{finding.Evidence{Object: nameOf(certificate), Field: "spec.issuerRef", Value: kind + "." + group + ": not served"}, why, "correct spec.issuerRef, or install the issuer's controller"}, true
	}
	namespace := ""
	if r.namespaced {
		namespace = certificate.GetNamespace()
	}
	o, known := c.get(ctx, r.GroupVersionResource, namespace, name)
	what := object(kind, namespace, name)
	switch {
	case !known:
		return l, false
	case o == nil:
		l = link{finding.Evidence{Object: what, Field: "metadata", Value: "does not exist"}, kind + " " + name + " does not exist", fmt.Sprintf("create %s %s, or correct spec.issuerRef of the Certificate", kind, name)}
		return l, true
	}
	ready := conditionOf(o, "Ready")
	l.evidence = ready.evidence(what)
	if ready.status == "False" || ready.typ == "" && group == certManager {
		l.why = joined(kind+" "+name+" is not ready", ready.why())
		l.hint = issuerHint(o, ready)
	}
	return l, true
}
