package drift

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// set returns a value in which something inner is another one.
func set(in any, at []any, v any) any {
	if len(at) == 0 {
		return v
	}
	switch step := at[0].(type) {
	case string:
		m, ok := in.(map[string]any)
		if !ok {
			m = map[string]any{}
		}
		m[step] = set(m[step], at[1:], v)
		return m
	case int:
		l, _ := in.([]any)
		if step >= len(l) {
			return append(l, set(nil, at[1:], v))
		}
		l[step] = set(l[step], at[1:], v)
		return l
	}
	return in
}

// Patch is the JSON merge patch that puts fields of a live object right. It holds for
// the version of the object that was read only, since lists in it are whole.
func Patch(live *unstructured.Unstructured, found []Field) ([]byte, error) {
	target := Right(live, found)
	patch, _ := difference(live.Object, target.Object).(map[string]any)
	metadata, ok := patch["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
	}
	metadata["resourceVersion"] = live.GetResourceVersion()
	whole := map[string]any{"metadata": metadata}
	for name, v := range patch {
		if name != "metadata" {
			whole[name] = v
		}
	}
	body, err := json.Marshal(whole)
	if err != nil {
		return nil, fmt.Errorf("writing the patch: %w", err)
	}
	return body, nil
}

// difference is what of b is not in a: only that is in it which corrections can
// change, and nothing is ever removed.
func difference(a, b any) any {
	x, okA := a.(map[string]any)
	y, okB := b.(map[string]any)
	if !okA || !okB {
		return b
	}
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(y)) {
		if !covers(y[name], x[name]) || !covers(x[name], y[name]) {
			out[name] = difference(x[name], y[name])
		}
	}
	return out
}

// Right is a live object whose fields are as they are wanted.
func Right(live *unstructured.Unstructured, found []Field) *unstructured.Unstructured {
	u := live.DeepCopy()
	for _, f := range found {
		u.Object, _ = set(u.Object, f.at, f.Want).(map[string]any)
	}
	return u
}

// Merged is a live object with all that a manifest sets.
func Merged(manifest, live *unstructured.Unstructured) *unstructured.Unstructured {
	return Right(live, All(manifest, live))
}
