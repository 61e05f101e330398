// Package chance tells what of a chart's objects is rendered by chance, such as
// certificates and passwords: what differs between two renders of the same inputs.
//
// It renders nothing, and knows nothing of what charts ask: a value that is by chance and
// turned out the same twice is taken for one that is not.
package chance

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Random names the objects that two renders of the same inputs have otherwise, such as
// "Secret/ns/cert", sorted. One whose name is by chance is named as it is in the first.
func Random(first, second []*unstructured.Unstructured) []string {
	a, b := indexed(first), indexed(second)
	var names []string
	for _, id := range slices.Sorted(maps.Keys(a)) {
		if b[id] == nil || !reflect.DeepEqual(a[id].Object, b[id].Object) {
			names = append(names, nameOf(a[id]))
		}
	}
	return slices.Compact(names)
}

// Differences tells what a render has otherwise than the objects that there are, but for
// what differs between it and a second one of the same inputs. Each is an object with its
// fields, such as "Deployment/ns/web: spec.replicas".
//
// Objects whose names are by chance count as the same when there are as many of their kind
// and namespace.
func Differences(there, first, second []*unstructured.Unstructured) []string {
	t, a, b := indexed(there), indexed(first), indexed(second)
	var found []string
	random := map[string]int{} // of each kind, those whose names are by chance
	for _, id := range slices.Sorted(maps.Keys(a)) {
		switch {
		case b[id] == nil && t[id] == nil:
			random[kindOf(a[id])]++
		case t[id] == nil:
			found = append(found, nameOf(a[id])+" is new")
		default:
			if fields := changed(t[id], a[id], b[id]); len(fields) > 0 {
				found = append(found, nameOf(a[id])+": "+strings.Join(fields, ", "))
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t)) {
		if a[id] != nil {
			continue
		}
		if k := kindOf(t[id]); random[k] > 0 {
			random[k]--
			continue
		}
		found = append(found, nameOf(t[id])+" is left out")
	}
	for _, kind := range slices.Sorted(maps.Keys(random)) {
		if random[kind] > 0 {
			found = append(found, fmt.Sprintf("%s: %d more", kind, random[kind]))
		}
	}
	return found
}

// changed are the fields that two objects have otherwise, but for those that the second
// one and its next render have otherwise.
func changed(there, first, second *unstructured.Unstructured) []string {
	var fields, chance []string
	compare(there.Object, first.Object, "", &fields)
	if second != nil && len(fields) > 0 {
		compare(first.Object, second.Object, "", &chance)
	}
	return slices.DeleteFunc(fields, func(f string) bool {
		return slices.ContainsFunc(chance, func(c string) bool {
			return f == c || strings.HasPrefix(f, c+".") || strings.HasPrefix(f, c+"[")
		})
	})
}

// compare appends the paths at which two values differ. Lists of different lengths differ
// as a whole.
func compare(a, b any, at string, fields *[]string) {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		keys := slices.Sorted(maps.Keys(x))
		for _, k := range slices.Sorted(maps.Keys(y)) {
			if _, both := x[k]; !both {
				keys = append(keys, k)
			}
		}
		for _, k := range keys {
			path := strings.TrimPrefix(at+"."+k, ".")
			if _, both := y[k]; !both || x[k] == nil && y[k] != nil {
				*fields = append(*fields, path)
				continue
			}
			compare(x[k], y[k], path, fields)
		}
		return
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			break
		}
		for i := range x {
			compare(x[i], y[i], fmt.Sprintf("%s[%d]", at, i), fields)
		}
		return
	}
	if !reflect.DeepEqual(a, b) {
		*fields = append(*fields, at)
	}
}

// indexed are objects by what they are. Those that are the same in that are told apart by
// their order.
func indexed(objects []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	out := make(map[string]*unstructured.Unstructured, len(objects))
	for _, o := range objects {
		id := fmt.Sprintf("%s %s", o.GetAPIVersion(), nameOf(o))
		for n := 2; out[id] != nil; n++ {
			id = fmt.Sprintf("%s %s %d", o.GetAPIVersion(), nameOf(o), n)
		}
		out[id] = o
	}
	return out
}

func kindOf(o *unstructured.Unstructured) string {
	return o.GetAPIVersion() + " " + o.GetKind() + "/" + o.GetNamespace()
}

func nameOf(o *unstructured.Unstructured) string {
	name := o.GetName()
	if name == "" {
		name = o.GetGenerateName()
	}
	return o.GetKind() + "/" + o.GetNamespace() + "/" + name
}
