package fields

import (
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// keys is how a list's items are told apart.
type keys struct {
	names []string                // of keyed items
	known []fieldpath.PathElement // items that have an owner, in order
	set   bool                    // items are values
}

// some reports whether they are told apart at all: else the list is one value.
func (k keys) some() bool { return k.set || len(k.names) > 0 }

// keysOf reads from what is owned of a list how its items are told apart.
func keysOf(below *fieldpath.Set) keys {
	var k keys
	if below == nil {
		return k
	}
	see := func(element fieldpath.PathElement) {
		switch {
		case element.Value != nil:
			k.set = true
		case element.Key != nil:
			if k.names == nil {
				for _, field := range *element.Key {
					k.names = append(k.names, field.Name)
				}
			}
			k.known = append(k.known, element)
		}
	}
	below.Members.Iterate(see)
	below.Children.Iterate(func(element fieldpath.PathElement) {
		if !below.Members.Has(element) {
			see(element)
		}
	})
	return k
}

// align says of each item of a list which one it is. An item may leave out a key that
// the API server sets; it is then an owned one of which the other keys are the same.
func (k keys) align(items []any) []fieldpath.PathElement {
	out := make([]fieldpath.PathElement, len(items))
	var used []fieldpath.PathElement
	var partial []int
	for i, item := range items {
		element, complete := k.element(item)
		out[i] = element
		if complete {
			used = append(used, element)
		} else {
			partial = append(partial, i)
		}
	}
	for _, i := range partial {
		for _, known := range k.known {
			if covers(*known.Key, *out[i].Key) && !slices.ContainsFunc(used, known.Equals) {
				out[i] = known
				used = append(used, known)
				break
			}
		}
	}
	return out
}

// element says which item of its list one is, and whether it has all keys.
func (k keys) element(item any) (_ fieldpath.PathElement, complete bool) {
	if k.set {
		return fieldpath.ValueElement(value.NewValueInterface(item)), true
	}
	fields, _ := item.(map[string]any)
	list := value.FieldList{}
	for _, name := range k.names {
		v, ok := fields[name]
		if !ok && name == "protocol" { // of all keys in Kubernetes' own kinds only this one has a default
			v, ok = "TCP", true
		}
		if ok {
			list = append(list, value.Field{Name: name, Value: value.NewValueInterface(v)})
		}
	}
	return fieldpath.PathElement{Key: &list}, len(list) == len(k.names)
}

// covers reports whether all has every field of some.
func covers(all, some value.FieldList) bool {
	for _, field := range some {
		if !slices.ContainsFunc(all, func(f value.Field) bool { return f.Name == field.Name && value.Equals(f.Value, field.Value) }) {
			return false
		}
	}
	return true
}

// index finds items of a list by their element.
func (k keys) index(items []any) map[string]int {
	found := make(map[string]int, len(items))
	for i, element := range k.align(items) {
		found[element.String()] = i
	}
	return found
}
