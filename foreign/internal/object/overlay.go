package object

import (
	"path"
	"slices"

	"github.com/kplan-dev/kplan/foreign"
)

// Built returns what an overlay makes of objects: those that it has left as they were are
// the ones that are given, with their files and places. namespace is that of one of these.
//
// All others are of no file that there is: they stand in what kustomize build prints.
func Built(in foreign.Input, dir string, from []*Object, namespace func(*Object) string, r *foreign.Report) ([]*Object, error) {
	text, err := in.Build(dir)
	if err != nil {
		return nil, err
	}
	objects, err := Read(foreign.File{Name: path.Join(dir, "(kustomize build)"), Data: text}, r)
	if err != nil {
		return nil, err
	}
	for i, o := range objects {
		same := func(was *Object) bool {
			return (o.Namespace == namespace(was) || o.Namespace == was.Namespace) && equal(was, o)
		}
		if j := slices.IndexFunc(from, same); j >= 0 {
			objects[i] = from[j]
		}
	}
	return objects, nil
}

// equal reports whether two objects are the same, wherever they are: the namespace is not
// looked at.
func equal(a, b *Object) bool {
	if a.Kind != b.Kind || a.Group != b.Group || a.Name != b.Name {
		return false
	}
	return sameFields(a.Fields(), b.Fields(), "metadata") && sameFields(a.Get("metadata").Fields(), b.Get("metadata").Fields(), "namespace")
}

// sameFields reports whether fields are the same, but for one.
func sameFields(a, b []*foreign.Value, but string) bool {
	named := func(v *foreign.Value) bool { return v.Name() == but }
	a, b = slices.DeleteFunc(a, named), slices.DeleteFunc(b, named)
	return len(a) == len(b) && !slices.ContainsFunc(a, func(v *foreign.Value) bool {
		return !slices.ContainsFunc(b, func(w *foreign.Value) bool { return v.Name() == w.Name() && v.Same(w) })
	})
}
