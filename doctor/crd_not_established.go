package doctor

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/plan/finding"
)

// crdNotEstablished finds CRDs whose objects the API server does not serve, or not by all
// their names.
var crdNotEstablished = Check{
	Rule: finding.Rule{
		ID: "crd-not-established", Severity: finding.Error,
		Summary: "A CRD is not established, or another one has its names.",
		Explanation: "Two CRDs of a group cannot share a plural, kind, singular or short name: the later one is not served (no matches for kind), " +
			"and one that was served before keeps its old names.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		var found []finding.Finding
		all := c.definitions(ctx)
		for _, d := range all {
			if d.DeletionTimestamp != nil {
				continue // it goes
			}
			if f, ok := d.rejected(all); ok {
				found = append(found, f)
			} else if e := d.condition("Established"); e.Status != metav1.ConditionTrue && !c.recent(d.CreationTimestamp.Time) {
				found = append(found, finding.Finding{
					Object: d.String(), Message: because("it is not established, so its objects are not served", e.Message),
					Hint:     "see its conditions: kubectl describe crd " + d.Name,
					Evidence: []finding.Evidence{{Object: d.String(), Field: "status.conditions[Established]", Value: because(string(e.Status), e.Reason)}},
				})
			}
		}
		return found
	},
}

// rejected finds the CRD that has the names of this one.
func (d definition) rejected(all []definition) (finding.Finding, bool) {
	names := d.condition("NamesAccepted")
	if names.Status != metav1.ConditionFalse {
		return finding.Finding{}, false
	}
	f := finding.Finding{
		Object: d.String(), Message: because("its names are taken, so its objects are not served", names.Message),
		Hint:     fmt.Sprintf("see which other kind of group %s has the name: kubectl api-resources --api-group=%s", d.Spec.Group, d.Spec.Group),
		Evidence: []finding.Evidence{{Object: d.String(), Field: "status.conditions[NamesAccepted]", Value: because(names.Reason, names.Message)}},
	}
	if d.condition("Established").Status == metav1.ConditionTrue {
		f.Message = because("its new names are taken, so it is served by its old ones", names.Message)
	}
	for _, o := range all {
		if name := d.Spec.Names.shared(o.Spec.Names); o.Name != d.Name && o.Spec.Group == d.Spec.Group && name != "" {
			f.Message += " by CRD " + o.Name
			f.Hint = fmt.Sprintf("delete the one that is not needed, which deletes its objects: kubectl get crd %s %s", d.Name, o.Name)
			f.Evidence = append(f.Evidence, finding.Evidence{Object: o.String(), Field: "spec.names", Value: name})
			break
		}
	}
	return f, true
}

// shared is a name that both have; "" without.
func (n definitionNames) shared(o definitionNames) string {
	for _, name := range append([]string{n.Kind, n.ListKind, n.Plural, n.Singular}, n.ShortNames...) {
		if name != "" && slices.Contains(append([]string{o.Plural, o.Singular, o.Kind, o.ListKind}, o.ShortNames...), name) {
			return name
		}
	}
	return ""
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}
