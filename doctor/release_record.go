package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/plan/finding"
)

var releaseRecord = Check{
	Rule: finding.Rule{
		ID: "release-record", Severity: finding.Warning,
		Summary: "Objects of a Helm release are there, and the release's records are not.",
		Explanation: "Helm does not know the release any more: it neither upgrades nor uninstalls these objects, and another release that " +
			"has them fails with: exists and cannot be imported into the current release.",
	},
	look: func(ctx context.Context, c *Cluster) []finding.Finding {
		records := c.records(ctx, true)
		if !records.told() {
			return nil
		}
		orphans := map[release][]string{}
		for _, k := range releaseKinds {
			for _, o := range c.meta(ctx, k.GroupVersionResource, k.namespaced, "app.kubernetes.io/managed-by=Helm") {
				r := release{o.Annotations["meta.helm.sh/release-namespace"], o.Annotations["meta.helm.sh/release-name"]}
				if r.name != "" && !records.names[r.name] && c.within(r.namespace) && !excused(o, r) {
					orphans[r] = append(orphans[r], object(k.kind, o.Namespace, o.Name))
				}
			}
		}
		var found []finding.Finding
		for _, r := range slices.SortedFunc(maps.Keys(orphans), func(a, b release) int { return cmp.Compare(a.String(), b.String()) }) {
			objects := orphans[r]
			f := finding.Finding{
				Object:  r.String(),
				Message: fmt.Sprintf("has no record, and %s in the cluster: %s", counted(len(objects), "object"), several(objects)),
				Hint:    fmt.Sprintf("take the objects over with helm upgrade --install --take-ownership %s CHART -n %s, or delete them", r.name, r.namespace),
				Evidence: []finding.Evidence{
					{Object: objects[0], Field: "metadata.annotations[meta.helm.sh/release-name]", Value: r.name},
					r.unrecorded(),
				},
			}
			found = append(found, f)
		}
		return found
	},
}

// releaseKinds are those that nearly every release has objects of.
var releaseKinds = []resource{
	{deploymentResource, "Deployment", true},
	{serviceResource, "Service", true},
	{serviceAccountResource, "ServiceAccount", true},
	{schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}, "ValidatingWebhookConfiguration", false},
	{schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}, "MutatingWebhookConfiguration", false},
}

// excused are objects that outlive their release: those on their way out, those that
// are to be kept, and those of a provider, who keeps records of kube-system elsewhere. What
// Flux has made is its own to mend.
func excused(o metav1.PartialObjectMetadata, r release) bool {
	keep := strings.EqualFold(strings.TrimSpace(o.Annotations["helm.sh/resource-policy"]), "keep")
	return o.DeletionTimestamp != nil || keep || o.Labels[fluxLabel] != "" || r.namespace == metav1.NamespaceSystem
}
