package drift

import (
	"encoding/base64"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// Normal is what of a manifest can be found in an object: as the API server writes
// it (a quantity of 0.5 is 500m), and without status and what only the server sets.
func Normal(manifest *unstructured.Unstructured) *unstructured.Unstructured {
	u := typed(decoded(manifest))
	out := map[string]any{}
	for name, v := range u.Object {
		if name != "apiVersion" && name != "kind" && name != "status" && name != "metadata" {
			out[name] = v
		}
	}
	metadata, _ := u.Object["metadata"].(map[string]any)
	kept := map[string]any{}
	for _, name := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
		if v := metadata[name]; v != nil {
			kept[name] = v
		}
	}
	if len(kept) > 0 {
		out["metadata"] = kept
	}
	return &unstructured.Unstructured{Object: out}
}

// decoded is a Secret whose texts are where the API server puts them; other objects
// are what they are.
func decoded(u *unstructured.Unstructured) *unstructured.Unstructured {
	texts, _ := u.Object["stringData"].(map[string]any)
	if u.GetAPIVersion() != "v1" || u.GetKind() != "Secret" || texts == nil {
		return u
	}
	u = u.DeepCopy()
	data, ok := u.Object["data"].(map[string]any)
	if !ok {
		data = map[string]any{}
		u.Object["data"] = data
	}
	for name, v := range texts {
		if s, ok := v.(string); ok {
			data[name] = base64.StdEncoding.EncodeToString([]byte(s))
		}
	}
	delete(u.Object, "stringData")
	return u
}

// typed sends an object of a kind that is known here through its Go type, as the API
// server does. What it cannot read stays as it is.
func typed(u *unstructured.Unstructured) *unstructured.Unstructured {
	o, err := scheme.Scheme.New(u.GroupVersionKind())
	if err != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o) != nil {
		return u
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return u
	}
	kept, _ := both(fields, u.Object).(map[string]any)
	return &unstructured.Unstructured{Object: kept}
}

// both is what of an object in its Go type stands in its manifest: the type adds
// zero values.
func both(typed, manifest any) any {
	switch m := manifest.(type) {
	case map[string]any:
		t, ok := typed.(map[string]any)
		if !ok {
			return typed
		}
		out := map[string]any{}
		for name, v := range m {
			if inner, found := t[name]; found {
				out[name] = both(inner, v)
			}
		}
		return out
	case []any:
		t, ok := typed.([]any)
		if !ok || len(t) != len(m) {
			return typed
		}
		out := make([]any, len(t))
		for i := range m {
			out[i] = both(t[i], m[i])
		}
		return out
	}
	return typed
}
