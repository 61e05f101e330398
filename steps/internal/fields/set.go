package fields

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kplan-dev/kplan/steps/internal/kinds"
)

// serverMeta are the fields of metadata that nobody owns: the API server keeps them
// out of managedFields (k8s.io/apimachinery/pkg/util/managedfields, stripmeta.go).
var serverMeta = map[string]bool{
	"name": true, "namespace": true, "creationTimestamp": true, "selfLink": true, "uid": true, "clusterName": true,
	"generation": true, "managedFields": true, "resourceVersion": true,
}

// Set returns the paths that a manifest sets, as the API server would note them for
// its manager. shape says how: a set of the same object's managedFields.
func Set(manifest *unstructured.Unstructured, shape *fieldpath.Set) *fieldpath.Set {
	set := fieldpath.NewSet()
	for key, v := range owned(manifest, shape) {
		element := fieldpath.FieldNameElement(key)
		member, below := child(shape, element)
		fill(set, element, v, member, below)
	}
	return set
}

// owned is what of a manifest can have an owner.
func owned(manifest *unstructured.Unstructured, shape *fieldpath.Set) map[string]any {
	out := make(map[string]any, len(manifest.Object))
	for key, v := range manifest.Object {
		switch key {
		case "apiVersion", "kind":
		case "metadata":
			meta, _ := v.(map[string]any)
			kept := make(map[string]any, len(meta))
			for k, x := range meta {
				if !serverMeta[k] {
					kept[k] = x
				}
			}
			if len(kept) > 0 {
				out[key] = kept
			}
		case "status":
			// Kinds with a subresource for it take no status from a manifest. All of
			// Kubernetes' own that have a status do.
			member, below := child(shape, fieldpath.FieldNameElement(key))
			if member || below != nil || kinds.Custom(manifest.GroupVersionKind().Group) {
				out[key] = v
			}
		default:
			out[key] = v
		}
	}
	return out
}

// fill puts the paths of a value into a set, below element.
func fill(set *fieldpath.Set, element fieldpath.PathElement, v any, member bool, below *fieldpath.Set) {
	whole := below == nil
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 || whole && member {
			set.Members.Insert(element)
			return
		}
		if member { // a map that may hold any key
			set.Members.Insert(element)
		}
		fillMap(set, element, v, below)
	case []any:
		keys := keysOf(below)
		if len(v) == 0 || !keys.some() {
			// An empty list is noted only where lists are replaced as a whole.
			if len(v) > 0 || member {
				set.Members.Insert(element)
			}
			return
		}
		inner := set.Children.Descend(element)
		for i, at := range keys.align(v) {
			inner.Members.Insert(at)
			if fields, ok := v[i].(map[string]any); ok {
				_, sub := child(below, at)
				fillMap(inner, at, fields, sub)
			}
		}
	default:
		set.Members.Insert(element)
	}
}

func fillMap(set *fieldpath.Set, element fieldpath.PathElement, v map[string]any, below *fieldpath.Set) {
	inner := fieldpath.NewSet()
	for key, x := range v {
		at := fieldpath.FieldNameElement(key)
		member, sub := child(below, at)
		fill(inner, at, x, member, sub)
	}
	if !inner.Empty() {
		*set.Children.Descend(element) = *inner
	}
}
