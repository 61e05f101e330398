// Package fields knows who owns which fields of an object: it reads managedFields,
// says which paths a manifest sets, what of it a live object does not have, and how
// two objects differ.
//
// It asks no API server, and has no schemas: an object's own managedFields show which
// of its lists are keyed, which are sets, and which are replaced as a whole.
package fields

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Manager is an entry of managedFields: who wrote, and what is theirs.
type Manager struct {
	Name        string
	Operation   metav1.ManagedFieldsOperationType
	Subresource string
	APIVersion  string
	Time        time.Time
	Set         *fieldpath.Set
}

// String names the manager as conflicts of kubectl do: "kubectl-edit (Update)".
func (m Manager) String() string {
	of := string(m.Operation)
	if m.Subresource != "" {
		of += " of " + m.Subresource
	}
	return fmt.Sprintf("%s (%s)", m.Name, of)
}

// Managers reads the managedFields of an object.
func Managers(u *unstructured.Unstructured) ([]Manager, error) {
	if u == nil {
		return nil, nil
	}
	var managers []Manager
	for _, e := range u.GetManagedFields() {
		m, err := managerOf(e)
		if err != nil {
			return nil, err
		}
		managers = append(managers, m)
	}
	return managers, nil
}

func managerOf(e metav1.ManagedFieldsEntry) (Manager, error) {
	m := Manager{Name: e.Manager, Operation: e.Operation, Subresource: e.Subresource, APIVersion: e.APIVersion, Set: fieldpath.NewSet()}
	if e.Time != nil {
		m.Time = e.Time.Time
	}
	if e.FieldsV1 == nil {
		return m, nil
	}
	if err := m.Set.FromJSON(e.FieldsV1.GetRawReader()); err != nil {
		return m, fmt.Errorf("managed fields of %s: %w", e.Manager, err)
	}
	return m, nil
}

// Applied returns what a manager owns of an object by server-side apply. It reads no
// other entry, since many objects are asked about it.
func Applied(u *unstructured.Unstructured, manager string) (Manager, bool, error) {
	for _, e := range u.GetManagedFields() {
		if e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" {
			m, err := managerOf(e)
			return m, err == nil, err
		}
	}
	return Manager{}, false, nil
}

// Union returns the paths that any of the managers owns.
func Union(managers []Manager) *fieldpath.Set {
	all := fieldpath.NewSet()
	for _, m := range managers {
		all = all.Union(m.Set)
	}
	return all
}

// Owners returns which managers own a path, something in it, or the whole that it is
// part of; who wrote last comes first.
func Owners(managers []Manager, path fieldpath.Path) []Manager {
	var owners []Manager
	for _, m := range managers {
		if owns(m.Set, path) {
			owners = append(owners, m)
		}
	}
	slices.SortStableFunc(owners, func(a, b Manager) int { return b.Time.Compare(a.Time) })
	return owners
}

func owns(set *fieldpath.Set, path fieldpath.Path) bool {
	for _, element := range path {
		member, below := child(set, element)
		if below == nil {
			return member
		}
		set = below
	}
	return true
}

// child descends in a set: whether the element itself is a member, and what is
// below it, nil when nothing is.
func child(set *fieldpath.Set, element fieldpath.PathElement) (member bool, below *fieldpath.Set) {
	if set == nil {
		return false, nil
	}
	below, _ = set.Children.Get(element)
	return set.Members.Has(element), below
}
