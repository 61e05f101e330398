package diff

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	yamlv3 "go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/drift"
	"github.com/kplan-dev/kplan/steps/internal/dryrun"
	"github.com/kplan-dev/kplan/steps/internal/fields"
)

// Objects shows what would become of objects; own is the field manager of the step.
// Those that nothing happens to are left out.
func Objects(all []*dryrun.Object, own string) ([]Object, error) {
	var out []Object
	for _, o := range all {
		shown, err := show(o, own)
		if err != nil {
			return nil, err
		}
		if shown != nil {
			out = append(out, *shown)
		}
	}
	return out, nil
}

func show(o *dryrun.Object, own string) (*Object, error) {
	before, after := bare(o.Before), bare(o.After)
	shown := &Object{Object: o.ID(), APIVersion: o.Kind.GroupVersion().String(), Action: Change, ClientSide: o.Unsent}
	if o.Err != nil {
		shown.Error = o.Err.Error()
		if hint := runner.HintOf(o.Err); hint != "" {
			shown.Error += "; " + hint
		}
	}
	switch {
	case before == nil && after == nil:
	case before == nil:
		shown.Action = Create
	case after == nil:
		shown.Action = Delete
	case len(o.Drift) > 0:
		shown.Drift = true
		for _, f := range o.Drift {
			shown.Fields = append(shown.Fields, fieldOf(f))
		}
	default:
		changes, err := fields.Diff(o.Before, o.After)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", shown.Object, err)
		}
		for _, c := range changes {
			if ignored(c.Text()) {
				continue
			}
			f := Field{Path: c.Text(), Before: c.Before, After: c.After}
			if len(c.Managers) > 0 && c.Managers[0].Name != own {
				f.Manager = c.Managers[0].Name
			}
			shown.Fields = append(shown.Fields, f)
		}
		if len(shown.Fields) == 0 && o.Err == nil {
			return nil, nil
		}
		shown.Drift = drifted(o.Before, shown.Fields, own)
	}
	return shown, shown.texts(before, after)
}

// drifted reports whether all that would change was set by others since the step sent
// the object.
func drifted(before *unstructured.Unstructured, changed []Field, own string) bool {
	sent := slices.ContainsFunc(before.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == own })
	return sent && len(changed) > 0 && !slices.ContainsFunc(changed, func(f Field) bool { return f.Manager == "" })
}

// ignored reports whether a field is the API server's own: it changes with each write.
func ignored(path string) bool {
	return path == "metadata.uid" || path == "metadata.creationTimestamp" || path == "metadata.selfLink"
}

func fieldOf(f drift.Field) Field {
	out := Field{Path: f.Path, Before: f.Have, After: f.Want, Manager: f.Owner.String()}
	if f.Secret {
		out.Before, out.After = "*** (before)", "*** (after)"
		if f.Have == nil {
			out.Before = nil
		}
	}
	return out
}

// texts writes the object as YAML, before and after.
func (o *Object) texts(before, after *unstructured.Unstructured) (err error) {
	before, after = masked(before, after)
	if o.Before, err = yamlOf(before); err == nil {
		o.After, err = yamlOf(after)
	}
	return err
}

// masked hides the values of Secrets; which of them change can be seen.
func masked(before, after *unstructured.Unstructured) (a, b *unstructured.Unstructured) {
	if before == nil || after == nil || before.GetKind() != "Secret" || before.GetAPIVersion() != "v1" {
		if before != nil {
			before = fields.Masked(before)
		}
		if after != nil {
			after = fields.Masked(after)
		}
		return before, after
	}
	a, b = fields.Masked(before), fields.Masked(after)
	for _, field := range []string{"data", "stringData"} {
		was, _, _ := unstructured.NestedMap(before.Object, field)
		is, _, _ := unstructured.NestedMap(after.Object, field)
		for name, v := range was {
			if w, ok := is[name]; ok && w != v {
				_ = unstructured.SetNestedField(a.Object, "*** (before)", field, name)
				_ = unstructured.SetNestedField(b.Object, "*** (after)", field, name)
			}
		}
	}
	return a, b
}

// bare is what of an object is its users'.
func bare(u *unstructured.Unstructured) *unstructured.Unstructured {
	if u == nil {
		return nil
	}
	u = u.DeepCopy()
	delete(u.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"} {
		unstructured.RemoveNestedField(u.Object, "metadata", field)
	}
	return u
}

func yamlOf(u *unstructured.Unstructured) (string, error) {
	if u == nil {
		return "", nil
	}
	var b bytes.Buffer
	e := yamlv3.NewEncoder(&b)
	e.SetIndent(2)
	err := e.Encode(u.Object)
	return b.String(), err
}

// Values are the values of a release that are given otherwise than before.
func Values(before, after map[string]any) []Field {
	var out []Field
	compare("", before, after, &out)
	return out
}

func compare(path string, before, after map[string]any, out *[]Field) {
	both := maps.Clone(before)
	if both == nil {
		both = map[string]any{}
	}
	maps.Copy(both, after)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		a, isA := before[name].(map[string]any)
		b, isB := after[name].(map[string]any)
		inner := name
		if path != "" {
			inner = path + "." + name
		}
		switch {
		case isA && isB:
			compare(inner, a, b, out)
		case fmt.Sprint(before[name]) != fmt.Sprint(after[name]):
			*out = append(*out, Field{Path: inner, Before: before[name], After: after[name]})
		}
	}
}
