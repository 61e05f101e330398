package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/Masterminds/semver/v3"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/internal/flight"
	"github.com/kplan-dev/kplan/runner"
)

// index is what is read of a repository's index.yaml.
type index struct {
	Entries map[string][]*entry `json:"entries"`
	// stale is why it is the one that the cache had; nil if it is as the server has it.
	stale error
}

// entry is one version of a chart.
type entry struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	URLs    []string `json:"urls"`
	Digest  string   `json:"digest"`
}

// indexes are those that were read.
type indexes struct {
	flight flight.Group[*index]
	mu     sync.Mutex
	held   map[string]*index
}

// index reads the index of a repository, once. One whose server is away is not kept.
func (s *Store) index(ctx context.Context, base string, home *access) (*index, error) {
	address, err := under(base, "index.yaml")
	if err != nil {
		return nil, runner.Permanent(err)
	}
	return s.indexes.flight.Do(ctx, address, func(ctx context.Context) (*index, error) {
		s.indexes.mu.Lock()
		x := s.indexes.held[address]
		s.indexes.mu.Unlock()
		if x != nil {
			return x, nil
		}
		text, stale := s.page(ctx, address, home)
		if stale != nil && (text == nil || !isUnreachable(stale)) {
			return nil, fmt.Errorf("reading the repository's index: %w", stale)
		}
		x, err := s.parse(text)
		if err != nil {
			return nil, fmt.Errorf("reading the repository's index: %w", err)
		}
		if x.stale = stale; stale == nil {
			s.indexes.mu.Lock()
			defer s.indexes.mu.Unlock()
			if s.indexes.held == nil {
				s.indexes.held = map[string]*index{}
			}
			s.indexes.held[address] = x
		}
		return x, nil
	})
}

// parse reads an index. What it needs of one is kept as JSON: large ones take seconds to
// be read as YAML.
func (s *Store) parse(text *Archive) (*index, error) {
	x, key := &index{}, "index "+text.Digest
	if n := s.cache.note(key); n != nil {
		if b := s.cache.blob(n.Digest); b != nil && json.Unmarshal(b, x) == nil {
			return x, nil
		}
	}
	if err := yaml.Unmarshal(text.Bytes, x); err != nil {
		return nil, err
	}
	if b, err := json.Marshal(x); err == nil {
		s.cache.put(b)
		s.cache.keep(note{Key: key, Digest: digestOf(b)})
	}
	return x, nil
}

// fromRepository gets a chart from a classic repository, by its index.
func (s *Store) fromRepository(ctx context.Context, base string, home *access, c Chart, pin *Pin) (*Archive, error) {
	all, err := s.index(ctx, base, home)
	if err != nil {
		return nil, err
	}
	version := pin.version(c.Version)
	if all.stale != nil {
		if !isExact(version) { // an older index may mean an older chart
			return nil, fmt.Errorf("reading the repository's index: %w", all.stale)
		}
		tell(ctx, Progress{Note: kept(all.stale)})
	}
	found, err := all.find(c.Name, version)
	if err != nil {
		return nil, cmp.Or(all.stale, err)
	}
	if len(found.URLs) == 0 {
		return nil, runner.Permanent(fmt.Errorf("the repository's index has no address for version %s", found.Version))
	}
	address, err := resolve(base, found.URLs[0])
	if err != nil {
		return nil, runner.Permanent(err)
	}
	to, err := s.logins.to(address, home)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(address, scheme) {
		return s.fromRegistry(ctx, to, Chart{Name: address, Version: found.Version, PlainHTTP: c.PlainHTTP, Keyring: c.Keyring, CosignKey: c.CosignKey}, pin)
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, runner.Permanent(err)
	}
	a := &Archive{Name: found.Name, Version: found.Version, Origin: shown(u), Digest: "sha256:" + strings.TrimPrefix(found.Digest, "sha256:")}
	if a.Bytes = s.cache.blob(a.Digest); a.Bytes != nil {
		tell(ctx, Progress{Cached: true})
	} else {
		got, err := s.page(ctx, address, to)
		if err != nil {
			return nil, err
		}
		a.Bytes, a.Digest, a.MediaType = got.Bytes, got.Digest, got.MediaType
	}
	return a, s.verifyPage(ctx, c, a, *u, to)
}

// verifyPage checks a chart of a repository by the provenance file beside it.
func (s *Store) verifyPage(ctx context.Context, c Chart, a *Archive, u url.URL, how *access) error {
	switch {
	case c.CosignKey != "":
		return unverified("cosign signs charts of OCI registries only")
	case c.Keyring == "":
		return nil
	}
	u.Path += ".prov"
	u.RawPath = ""
	prov, err := s.page(ctx, u.String(), how)
	switch e := (*answerError)(nil); {
	case errors.As(err, &e) && e.answer.StatusCode == http.StatusNotFound:
		return unverified("it has no provenance file: %s answered %s", shown(&u), e.answer.Status)
	case err != nil && (prov == nil || !isUnreachable(err)):
		return fmt.Errorf("reading its provenance file: %w", err)
	}
	return CheckProvenance(c.Keyring, a.Name+"-"+a.Version+".tgz", a.Bytes, prov.Bytes)
}

// kept says that what an earlier run fetched is used, and why.
func kept(err error) string {
	return "what an earlier run fetched is used, since the server is away: " + Public(err.Error())
}

// find returns the version of a chart that is asked for.
func (x *index) find(name, version string) (*entry, error) {
	type candidate struct {
		*entry
		*semver.Version
	}
	var all []candidate
	for _, e := range x.Entries[name] {
		if e == nil {
			continue
		}
		if v, err := semver.NewVersion(e.Version); err == nil {
			all = append(all, candidate{e, v})
		}
	}
	if len(all) == 0 {
		return nil, runner.Permanent(errors.New("the repository has no such chart"))
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return b.Compare(a.Version) })
	versions := make([]*semver.Version, len(all))
	for i, c := range all {
		versions[i] = c.Version
	}
	i, err := match(versions, version)
	if err != nil {
		return nil, err
	}
	if i < 0 {
		return nil, absentVersion(version, versions)
	}
	return all[i].entry, nil
}

// under returns the address of a file of a repository.
func under(base, name string) (string, error) {
	u, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("the repository's address %q is neither http nor https", Public(base))
	}
	u.RawPath, u.Path = path.Join(u.RawPath, name), path.Join(u.Path, name)
	if !strings.HasPrefix(u.Path, "/") {
		u.Path = "/" + u.Path
	}
	return u.String(), nil
}

// resolve returns the address of what an index names, which may be relative to the
// repository; its query is then that of the repository.
func resolve(base, name string) (string, error) {
	ref, err := url.Parse(name)
	if err != nil {
		return "", fmt.Errorf("the repository's index has an address that is none: %w", err)
	}
	if ref.IsAbs() {
		return name, nil
	}
	u, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/"
	if u.RawPath != "" {
		u.RawPath = strings.TrimSuffix(u.RawPath, "/") + "/"
	}
	full := u.ResolveReference(ref)
	full.RawQuery, full.User = u.RawQuery, nil
	return full.String(), nil
}
