package fields

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Diff returns the fields in which two states of an object differ, in the order of
// their names; what only the API server writes, and the status, does not count. Either
// may be nil. Values of Secrets are masked. Managers are those of before.
func Diff(before, after *unstructured.Unstructured) ([]Change, error) {
	managers, err := Managers(before)
	if err != nil {
		return nil, err
	}
	later, err := Managers(after)
	if err != nil {
		return nil, err
	}
	var d difference
	d.maps(nil, content(before), content(after), Union(append(later, managers...)))
	for i := range d.changes {
		c := &d.changes[i]
		c.Managers = Owners(managers, c.Path)
		if isSecret(before) || isSecret(after) {
			c.mask()
		}
	}
	return d.changes, nil
}

// content is what of an object its users write.
func content(u *unstructured.Unstructured) map[string]any {
	if u == nil {
		return nil
	}
	out := maps.Clone(u.Object)
	delete(out, "status")
	meta, _ := out["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	for key := range serverMeta {
		if key != "name" && key != "namespace" {
			delete(meta, key)
		}
	}
	out["metadata"] = meta
	return out
}

// difference is one call of Diff.
type difference struct{ changes []Change }

func (d *difference) values(path fieldpath.Path, before, after any, below *fieldpath.Set) {
	if reflect.DeepEqual(before, after) {
		return
	}
	switch b := before.(type) {
	case map[string]any:
		if a, ok := after.(map[string]any); ok {
			d.maps(path, b, a, below)
			return
		}
	case []any:
		if a, ok := after.([]any); ok {
			d.lists(path, b, a, below)
			return
		}
	}
	d.changes = append(d.changes, Change{Path: path.Copy(), Before: before, After: after})
}

func (d *difference) maps(path fieldpath.Path, before, after map[string]any, below *fieldpath.Set) {
	both := maps.Clone(before)
	if both == nil {
		both = map[string]any{}
	}
	maps.Copy(both, after)
	for _, key := range slices.Sorted(maps.Keys(both)) {
		element := fieldpath.FieldNameElement(key)
		_, inner := child(below, element)
		d.values(append(path, element), before[key], after[key], inner)
	}
}

// lists compares items by their keys, or by their place where none was left out or
// put in between.
func (d *difference) lists(path fieldpath.Path, before, after []any, below *fieldpath.Set) {
	keys := keysOf(below)
	if !keys.some() && named(before) && named(after) {
		keys.names = []string{"name"}
	}
	if !keys.some() {
		if len(before) != len(after) || !maplike(before) || !maplike(after) {
			d.changes = append(d.changes, Change{Path: path.Copy(), Before: before, After: after})
			return
		}
		for i := range before {
			d.values(append(path, fieldpath.IndexElement(i)), before[i], after[i], nil)
		}
		return
	}
	known := len(d.changes)
	was, is := keys.index(before), keys.index(after)
	for i, element := range keys.align(before) {
		var counterpart any
		if at, ok := is[element.String()]; ok {
			counterpart = after[at]
		}
		_, inner := child(below, element)
		d.values(append(path, element), before[i], counterpart, inner)
	}
	for i, element := range keys.align(after) {
		if _, ok := was[element.String()]; !ok {
			d.values(append(path, element), nil, after[i], nil)
		}
	}
	if len(d.changes) == known { // the same items, in another order
		d.changes = append(d.changes, Change{Path: path.Copy(), Before: before, After: after})
	}
}

// maplike reports whether all items are maps.
func maplike(items []any) bool {
	return !slices.ContainsFunc(items, func(item any) bool { _, ok := item.(map[string]any); return !ok })
}

// named reports whether each item has a name of its own.
func named(items []any) bool {
	seen := map[string]bool{}
	for _, item := range items {
		fields, _ := item.(map[string]any)
		name, _ := fields["name"].(string)
		if name == "" || seen[name] {
			return false
		}
		seen[name] = true
	}
	return true
}
