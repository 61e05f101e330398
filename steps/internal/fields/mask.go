package fields

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// hidden stands for a value that nobody is to see, and the others for one that changed.
const (
	hidden       = "***"
	hiddenBefore = "*** (before)"
	hiddenAfter  = "*** (after)"
)

// lastApplied is kubectl's annotation with the whole object in it.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

func isSecret(u *unstructured.Unstructured) bool {
	return u != nil && u.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Secret"}
}

// Masked returns an object without the values of a Secret; other objects as they are.
func Masked(u *unstructured.Unstructured) *unstructured.Unstructured {
	if !isSecret(u) {
		return u
	}
	u = u.DeepCopy()
	for _, field := range []string{"data", "stringData"} {
		if data, ok := u.Object[field].(map[string]any); ok {
			for key := range data {
				data[key] = hidden
			}
		}
	}
	if annotations := u.GetAnnotations(); annotations[lastApplied] != "" {
		annotations[lastApplied] = hidden
		u.SetAnnotations(annotations)
	}
	return u
}

// mask hides what a change says of a Secret's values.
func (c *Change) mask() {
	switch {
	case len(c.Path) > 0 && slices.Contains([]string{"data", "stringData"}, name(c.Path[:1], 1)), name(c.Path, 1) == lastApplied:
		by, then := hidden, hidden
		if c.Before != nil && c.After != nil {
			by, then = hiddenBefore, hiddenAfter
		}
		c.Before, c.After = maskValue(c.Before, by), maskValue(c.After, then)
	default:
		c.Before, c.After = withoutApplied(c.Before), withoutApplied(c.After)
	}
}

// maskValue hides a value; of a map the keys stay.
func maskValue(v any, by string) any {
	switch v := v.(type) {
	case nil:
		return nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for key := range v {
			out[key] = by
		}
		return out
	}
	return by
}

// withoutApplied hides kubectl's annotation in metadata, or in the annotations.
func withoutApplied(v any) any {
	fields, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := maps.Clone(fields)
	if _, ok := out[lastApplied]; ok {
		out[lastApplied] = hidden
	}
	if annotations, ok := out["annotations"]; ok {
		out["annotations"] = withoutApplied(annotations)
	}
	return out
}
