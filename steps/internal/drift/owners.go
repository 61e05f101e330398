package drift

import (
	"bytes"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Owner is who has set a field.
type Owner struct {
	// Manager is the field manager, such as kubectl-edit.
	Manager string
	// Operation is Apply or Update.
	Operation string
	// Subresource is what it was set by: scale, status, or empty.
	Subresource string
	// Time is when the manager last changed something of the object.
	Time time.Time
}

// owners are who owns what of one object.
type owners []owned

type owned struct {
	Owner
	*fieldpath.Set
}

func ownersOf(live *unstructured.Unstructured) owners {
	var all owners
	for _, e := range live.GetManagedFields() {
		set := &fieldpath.Set{}
		if e.FieldsV1 == nil || set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())) != nil {
			continue
		}
		all = append(all, owned{ownerOf(e), set})
	}
	return all
}

func ownerOf(e metav1.ManagedFieldsEntry) Owner {
	o := Owner{Manager: e.Manager, Operation: string(e.Operation), Subresource: e.Subresource}
	if e.Time != nil {
		o.Time = e.Time.Time
	}
	return o
}

// of are the owners of a path. What is owned as a whole has no owners of its parts.
func (all owners) of(path fieldpath.Path) []Owner {
	for n := len(path); n > 0; n-- {
		var found []Owner
		parted := false
		for _, o := range all {
			below := o.below(path[:n-1])
			if below == nil {
				continue
			}
			if below.Members.Has(path[n-1]) {
				found = append(found, o.Owner)
			}
			if _, has := below.Children.Get(path[n-1]); has {
				parted = true
			}
		}
		if len(found) > 0 && (n == len(path) || !parted) {
			return found
		}
		if parted {
			return nil
		}
	}
	return nil
}

// below is the part of a set below a path; nil when it has none.
func (o owned) below(path fieldpath.Path) *fieldpath.Set {
	set := o.Set
	for _, e := range path {
		next, has := set.Children.Get(e)
		if !has {
			return nil
		}
		set = next
	}
	return set
}

// keys are the fields that tell the items of a list apart, and set says that the
// items tell themselves apart; neither for a list that is one value.
func (all owners) keys(path fieldpath.Path) (keys []string, set bool) {
	look := func(e fieldpath.PathElement) {
		switch {
		case e.Key != nil && keys == nil:
			for _, f := range *e.Key {
				keys = append(keys, f.Name)
			}
		case e.Value != nil:
			set = true
		}
	}
	for _, o := range all {
		if below := o.below(path); below != nil {
			below.Members.Iterate(look)
			below.Children.Iterate(look)
		}
	}
	return keys, set
}
