package removal

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsKept reports whether an object says that an uninstall leaves it.
func IsKept(o Object) bool {
	return strings.EqualFold(strings.TrimSpace(o.GetAnnotations()["helm.sh/resource-policy"]), "keep")
}

// Makers are the field managers that have written an object, but for those of its
// status and of Kubernetes itself.
func Makers(o Object) []string {
	var all []string
	for _, m := range o.GetManagedFields() {
		if m.Subresource == "" && !slices.Contains(kubernetes, m.Manager) && m.Manager != "" {
			all = append(all, m.Manager)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// kubernetes are the field managers of Kubernetes' own programs.
var kubernetes = []string{"kube-controller-manager", "kube-scheduler", "kube-apiserver", "kubelet", "kube-proxy", "cloud-controller-manager", "kube"}

// IsCommon reports whether a name is one that many programs bear, so that it does not
// tell which of them wrote an object: controller-runtime's template builds "manager".
func IsCommon(program string) bool { return slices.Contains(common, program) }

var common = []string{"manager", "controller", "controller-manager", "main", "app", "server"}

// Why objects stay or go that nobody named.
const (
	DefinitionsStay = "definitions stay, with all objects of their kinds: --delete-crds, or delete_crds: true of a delete step, takes them too"
	DefinitionGoes  = "its definition goes"
)

// PlanLabel has the name of the plan that made an object: a revision of a release, or
// a namespace.
const PlanLabel = "kplan.dev/plan"

// AppliedBy says who applies an object too that kplan applies: it is theirs by now as
// much as kplan's. It is empty when nobody does.
func AppliedBy(o Object) string {
	for _, m := range o.GetManagedFields() {
		if m.Subresource == "" && m.Manager != "kplan" && m.Operation == metav1.ManagedFieldsOperationApply {
			return m.Manager + " applies it too"
		}
	}
	return ""
}

// MadeBy says which tool made an object that kplan applies, before it did. It is empty
// when none is known to have.
func MadeBy(o Object) string {
	made := o.GetCreationTimestamp()
	for _, m := range o.GetManagedFields() {
		first := m.Time != nil && !m.Time.After(made.Time)
		if first && m.Subresource == "" && m.Manager != "kplan" && IsTool(m.Manager) {
			return "it was made by " + m.Manager
		}
	}
	return ""
}

// IsApplied reports whether kplan applies an object. An apply that sets no field, such
// as that of a bare namespace, leaves no trace: an object without any manager was
// made by one.
func IsApplied(o Object) bool {
	return len(o.GetManagedFields()) == 0 || slices.ContainsFunc(o.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == "kplan" && m.Operation == metav1.ManagedFieldsOperationApply
	})
}
