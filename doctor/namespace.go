package doctor

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/plan/finding"
)

var namespaceTerminating = Check{
	Rule: finding.Rule{
		ID: "namespace-terminating", Severity: finding.Error,
		Summary: "A namespace is being deleted and does not go.",
		Explanation: "The namespace controller deletes all objects in it first, of all kinds that the API server serves: one API service " +
			"that does not answer, or one object with a finalizer, stops it. Nothing can be made in the namespace meanwhile.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		var found []finding.Finding
		for _, o := range c.meta(ctx, namespaceResource, false, "") {
			if o.DeletionTimestamp == nil || !c.within(o.Name) || c.Now.Sub(o.DeletionTimestamp.Time) < leavingSoon {
				continue
			}
			if u, _ := c.get(ctx, namespaceResource, "", o.Name); u != nil {
				if f, bad := terminating(u, c.Now.Sub(o.DeletionTimestamp.Time)); bad {
					found = append(found, f)
				}
			}
		}
		return found
	},
}

// terminating says what keeps a namespace: its conditions tell (kubernetes/kubernetes
// pkg/controller/namespace/deletion/status_condition_utils.go).
func terminating(u *unstructured.Unstructured, since time.Duration) (finding.Finding, bool) {
	f := finding.Finding{Object: object("Namespace", "", u.GetName())}
	for _, k := range []struct {
		condition, hint string
		patience        time.Duration
	}{
		{"NamespaceDeletionDiscoveryFailure", "an API service does not answer: kubectl get apiservices; start what serves it, or delete the API service if that has gone for good", leavingSoon},
		{"NamespaceDeletionGroupVersionParsingFailure", "see kubectl get apiservices", leavingSoon},
		{"NamespaceDeletionContentFailure", "see what cannot be deleted: a webhook or a conversion webhook that does not answer is a finding of its own", leavingSoon},
		{"NamespaceFinalizersRemaining", "see whose finalizers they are, and whether that controller runs: ", leavingLate},
		{"NamespaceContentRemaining", "see what is left: ", leavingLate},
	} {
		is := conditionOf(u, k.condition)
		if is.status != "True" || since < k.patience {
			continue
		}
		f.Message = "cannot be deleted: " + strings.TrimPrefix(is.why(), "Some ")
		f.Hint = k.hint
		f.Evidence = []finding.Evidence{is.evidence(f.Object)}
		if k.patience == leavingLate {
			f.Severity = finding.Warning
			f.Hint += "kubectl get " + remaining(u) + " -n " + u.GetName() + " -o yaml"
		}
		return f, true
	}
	if finalizers := u.GetFinalizers(); len(finalizers) > 0 && since >= leavingLate {
		f.Severity = finding.Warning
		f.Message = "cannot be deleted: finalizer " + strings.Join(finalizers, ", ") + " stays"
		f.Hint = "see whether the controller runs that put it there"
		f.Evidence = []finding.Evidence{{Object: f.Object, Field: "metadata.finalizers", Value: strings.Join(finalizers, ", ")}}
		return f, true
	}
	return f, false
}

// remaining is a resource that a namespace still has objects of.
func remaining(u *unstructured.Unstructured) string {
	// Some resources are remaining: configmaps. has 1 resource instances, …
	_, text, _ := strings.Cut(conditionOf(u, "NamespaceContentRemaining").message, ": ")
	name, _, found := strings.Cut(text, " has ")
	if !found {
		return "all"
	}
	return strings.TrimSuffix(name, ".")
}
