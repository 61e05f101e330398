package source

import "oras.land/oras-go/v2/registry/remote"

// Repository connects to a repository in a registry, HOST/PATH, with the logins of
// the plan's repositories and those that Helm and Docker know.
func (s *Store) Repository(name string, plainHTTP bool) (*remote.Repository, error) {
	how, err := s.logins.to(scheme+name, nil)
	if err != nil {
		return nil, err
	}
	return s.repository(place{repository: name}, how, plainHTTP)
}
