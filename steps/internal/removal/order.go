package removal

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/steps/internal/kinds"
)

// phase is when an object goes. The next phase begins when all of one are gone.
type phase int

const (
	// custom are custom resources, while what serves them is still there. Those that
	// another one refers to have their turn after it.
	custom phase = iota
	// admission is what the API server asks before it does something, and would
	// fail without once those who answer are gone.
	admission
	// work is workloads, and everything that no other phase has.
	work
	// ground is what workloads refer to: they may need it to end.
	ground
	definitions
	namespaces
	phases
)

var groundKinds = map[string]bool{
	"ServiceAccount": true, "Secret": true, "ConfigMap": true, "ResourceQuota": true, "LimitRange": true,
	"PersistentVolume": true, "PersistentVolumeClaim": true, "Service": true,
}

var groundGroups = map[string]bool{
	"rbac.authorization.k8s.io": true, "storage.k8s.io": true, "scheduling.k8s.io": true, "node.k8s.io": true,
}

func phaseOf(gk schema.GroupKind) phase {
	switch {
	case gk == schema.GroupKind{Kind: "Namespace"}:
		return namespaces
	case gk == kinds.Definitions.GroupKind():
		return definitions
	case gk.Group == "admissionregistration.k8s.io", gk.Group == "apiregistration.k8s.io":
		return admission
	case gk.Group == "" && groundKinds[gk.Kind], groundGroups[gk.Group]:
		return ground
	case kinds.Custom(gk.Group):
		return custom
	}
	return work
}

// Later reports whether objects of a kind wait until all that a plan made is gone:
// others may be in a namespace, or of a definition's kind.
func Later(gk schema.GroupKind) bool { return phaseOf(gk) == namespaces }

// inPhases parts objects by when they go.
func inPhases(objects []Object) [][]Object {
	var all [][]Object
	for p := range phases {
		var part []Object
		for _, o := range objects {
			if phaseOf(o.GroupVersionKind().GroupKind()) == p {
				part = append(part, o)
			}
		}
		switch {
		case len(part) == 0:
		case p == custom:
			all = append(all, byReference(part)...)
		default:
			all = append(all, part)
		}
	}
	return all
}

// byReference parts custom resources so that one goes before those that it refers
// to: its controller may need them to clean up, as a PushSecret its SecretStore.
// Those that refer to each other in a circle go together.
func byReference(objects []Object) [][]Object {
	refers := func(from, to Object) bool {
		return from.GetUID() != to.GetUID() &&
			(to.GetNamespace() == "" || from.GetNamespace() == to.GetNamespace()) &&
			mentions(from.Object["spec"], to.GetKind(), to.GetName())
	}
	var all [][]Object
	for left := objects; len(left) > 0; {
		var now, later []Object
		for _, o := range left {
			if slices.ContainsFunc(left, func(other Object) bool { return refers(other, o) }) {
				later = append(later, o)
			} else {
				now = append(now, o)
			}
		}
		if len(now) == 0 {
			now, later = later, nil
		}
		all, left = append(all, now), later
	}
	return all
}

// mentions reports whether a value has a mapping with this kind and name.
func mentions(v any, kind, name string) bool {
	switch v := v.(type) {
	case map[string]any:
		if v["kind"] == kind && v["name"] == name {
			return true
		}
		for _, inner := range v {
			if mentions(inner, kind, name) {
				return true
			}
		}
	case []any:
		for _, inner := range v {
			if mentions(inner, kind, name) {
				return true
			}
		}
	}
	return false
}

// keepsPods reports whether objects of a kind are gone only when their pods are.
func keepsPods(m *meta.RESTMapping) bool {
	switch m.GroupVersionKind.Group {
	case "apps", "batch":
		return true
	}
	return m.GroupVersionKind.GroupKind() == schema.GroupKind{Kind: "ReplicationController"}
}
