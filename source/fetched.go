package source

import (
	"cmp"
	"slices"
)

// Fetched is what a reference led to.
type Fetched struct {
	Reference
	*Archive
}

// Fetched returns what the store got so far, each reference once, in a stable order.
func (s *Store) Fetched() []Fetched {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Fetched, 0, len(s.found))
	for ref, a := range s.found {
		all = append(all, Fetched{ref, a})
	}
	slices.SortFunc(all, func(a, b Fetched) int { return a.Compare(b.Reference) })
	return all
}

// Compare orders references by kind, repository, name and version.
func (r Reference) Compare(other Reference) int {
	return cmp.Or(cmp.Compare(r.Kind, other.Kind), cmp.Compare(r.Repo, other.Repo), cmp.Compare(r.Name, other.Name), cmp.Compare(r.Version, other.Version))
}
