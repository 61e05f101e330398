package rights

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kplan-dev/kplan/steps/internal/guard"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
)

// Kinds knows the resources of kinds.
type Kinds struct {
	resource func(schema.GroupVersionKind) (schema.GroupVersionResource, bool)
	custom   []kinds.Definition
	others   []schema.GroupVersionKind // of objects, sorted
	ask      func(string) (*meta.RESTMapping, bool)
}

// KindsOf knows those of a cluster and of CRDs among the objects of a plan. ask finds the
// resource that a type argument of kubectl names; nil where no cluster can be asked.
func KindsOf(resources func(schema.GroupVersionKind) (schema.GroupVersionResource, bool), objects []*unstructured.Unstructured, ask func(string) (*meta.RESTMapping, bool)) Kinds {
	k := Kinds{resource: resources, ask: ask}
	seen := map[schema.GroupVersionKind]bool{}
	for _, o := range objects {
		if kinds.IsDefinition(o) {
			k.custom = append(k.custom, kinds.DefinitionOf(o))
		}
		seen[o.GroupVersionKind()] = true
	}
	k.others = slices.SortedFunc(maps.Keys(seen), func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) })
	return k
}

// Planned knows the kinds of Kubernetes itself, and those of a plan's objects.
func Planned(objects []*unstructured.Unstructured) Kinds {
	return KindsOf(guard.Resources(nil, objects), objects, nil)
}

// of is the resource of a kind, and whether its objects have
// namespaces.
func (k Kinds) of(gvk schema.GroupVersionKind) (schema.GroupResource, bool) {
	r, namespaced := k.resource(gvk)
	return r.GroupResource(), namespaced
}

// at is the resource of an object, and its namespace; "" for a kind without.
func (k Kinds) at(o *unstructured.Unstructured) (schema.GroupResource, string) {
	r, namespaced := k.of(o.GroupVersionKind())
	if !namespaced {
		return r, ""
	}
	return r, o.GetNamespace()
}

// named finds what a type argument of kubectl means: deploy, deployments.apps,
// certificates.v1.cert-manager.io. A name with a group is guessed when nobody knows it.
func (k Kinds) named(arg string) (r schema.GroupResource, namespaced, known bool) {
	arg = strings.ToLower(arg)
	if k.ask != nil {
		if m, ok := k.ask(arg); ok {
			return m.Resource.GroupResource(), m.Scope.Name() == meta.RESTScopeNameNamespace, true
		}
	}
	for _, d := range k.custom {
		for _, name := range append(slices.Clone(d.ShortNames), d.Plural, d.Singular, strings.ToLower(d.Kind)) {
			if means(arg, name, d.Group) {
				return schema.GroupResource{Group: d.Group, Resource: d.Plural}, d.Namespaced, true
			}
		}
	}
	for _, gvk := range append(slices.Clone(k.others), builtin()...) {
		r, namespaced := k.of(gvk)
		if means(arg, strings.ToLower(gvk.Kind), gvk.Group) || means(arg, r.Resource, gvk.Group) || means(arg, short[gvk.Kind], gvk.Group) {
			return r, namespaced, true
		}
	}
	full, group := schema.ParseResourceArg(arg)
	if full != nil && isVersion.MatchString(full.Version) { // else it is the first part of the group
		group = full.GroupResource()
	}
	if group.Group == "" {
		return r, false, false
	}
	if !strings.HasSuffix(group.Resource, "s") {
		plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: group.Group, Kind: group.Resource})
		group = plural.GroupResource()
	}
	return group, true, true
}

// isVersion is how versions of Kubernetes' APIs look.
var isVersion = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)

// means reports whether a type argument is a name, perhaps with its version and group.
func means(arg, name, group string) bool {
	if name == "" || arg == name || arg == name+"."+group {
		return name != ""
	}
	full, _ := schema.ParseResourceArg(arg)
	return full != nil && full.Resource == name && full.Group == group
}

// short are kubectl's short names of kinds of Kubernetes that plans wait for.
var short = map[string]string{
	"ConfigMap": "cm", "CustomResourceDefinition": "crd", "DaemonSet": "ds", "Deployment": "deploy", "Ingress": "ing", "Namespace": "ns", "Node": "no",
	"PersistentVolumeClaim": "pvc", "Pod": "po", "ReplicaSet": "rs", "Service": "svc", "ServiceAccount": "sa", "StatefulSet": "sts",
}

// builtin are the kinds of Kubernetes itself, each in the version that is preferred.
func builtin() []schema.GroupVersionKind {
	all := []schema.GroupVersionKind{kinds.Definitions}
	seen := map[schema.GroupKind]bool{}
	for _, gv := range scheme.Scheme.PrioritizedVersionsAllGroups() {
		for _, kind := range slices.Sorted(maps.Keys(scheme.Scheme.KnownTypes(gv))) {
			gk := schema.GroupKind{Group: gv.Group, Kind: kind}
			if seen[gk] || gv.Group == "extensions" || strings.HasSuffix(kind, "List") || strings.HasSuffix(kind, "Options") {
				continue
			}
			seen[gk] = true
			all = append(all, gv.WithKind(kind))
		}
	}
	return all
}
