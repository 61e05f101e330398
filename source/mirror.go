package source

import (
	"context"
	"errors"
	"net/url"
	"strings"
)

// Mapping has what is below one address fetched from below another one.
type Mapping struct {
	// Old is HOST[/PATH], and New what stands in its place.
	Old, New string
	// PlainHTTP has New asked without TLS.
	PlainHTTP bool
}

// ParseMapping reads OLD=NEW, both HOST[/PATH]. A scheme before them is for people, but
// for http:// before NEW, which is without TLS.
func ParseMapping(text string) (Mapping, error) {
	before, after, ok := strings.Cut(text, "=")
	m := Mapping{Old: bare(before), New: bare(after), PlainHTTP: strings.HasPrefix(after, "http://")}
	if !ok || m.Old == "" || m.New == "" || strings.ContainsAny(m.Old+m.New, "@ =") {
		return m, errors.New("it is OLD=NEW, both HOST[/PATH], such as ghcr.io=registry.internal/ghcr")
	}
	return m, nil
}

// bare is an address without its scheme and the slash at its end.
func bare(address string) string {
	if _, rest, ok := strings.Cut(address, "://"); ok {
		address = rest
	}
	return strings.TrimSuffix(address, "/")
}

// Mirrors fetches what references name from other addresses. What it gets is known by the
// reference all the same, and checked against the same pins: a mirror need not be
// trusted when there is a lock file.
type Mirrors struct {
	mappings []Mapping
	from     *Store
	// keyring and cosignKey are files of keys, as in Chart.
	keyring, cosignKey string
}

var _ Contents = (*Mirrors)(nil)

// NewMirrors makes mirrors, which fetch as a store with the options would. Close them
// after the run.
func NewMirrors(o Options, mappings ...Mapping) *Mirrors {
	o.Pins, o.Contents = nil, nil
	return &Mirrors{mappings: mappings, from: New(o)}
}

// Close gives connections back.
func (m *Mirrors) Close() { m.from.Close() }

// verifying returns mirrors whose charts are signed as one must be that is asked for.
func (m *Mirrors) verifying(c Chart) *Mirrors {
	return &Mirrors{m.mappings, m.from, c.Keyring, c.CosignKey}
}

// Content implements Contents.
func (m *Mirrors) Content(ctx context.Context, ref Reference, pin *Pin) (*Archive, error) {
	address := &ref.Name
	if ref.Kind == KindChart && ref.Repo != "" {
		address = &ref.Repo
	}
	to, plain, ok := m.rewrite(*address)
	if !ok {
		return nil, nil
	}
	*address = to
	switch ref.Kind {
	case KindChart:
		return m.from.Chart(ctx, Chart{
			Name: ref.Name, Repo: ref.Repo, Version: pin.version(ref.Version), PlainHTTP: plain,
			Keyring: m.keyring, CosignKey: m.cosignKey,
		})
	case KindArtifact:
		return m.from.Artifact(ctx, Artifact{Name: ref.Name, PlainHTTP: plain})
	case KindFile:
		return m.from.File(ctx, File{URL: ref.Name})
	}
	return nil, errors.New("a reference of no kind")
}

// rewrite returns where something at an address is fetched from, by the longest mapping
// that fits. Logins in the address stay behind: they are for its own host.
func (m *Mirrors) rewrite(address string) (to string, plainHTTP, ok bool) {
	scheme, rest, isAddress := strings.Cut(address, "://")
	if !isAddress {
		return "", false, false
	}
	if u, err := url.Parse(address); err == nil && u.User != nil {
		u.User = nil
		_, rest, _ = strings.Cut(u.String(), "://")
	}
	longest := -1
	var use Mapping
	for _, mapping := range m.mappings {
		after, below := strings.CutPrefix(rest, mapping.Old)
		if below && (after == "" || strings.ContainsRune("/:@?", rune(after[0]))) && len(mapping.Old) > longest {
			if after != "" && after[0] == ':' && !strings.Contains(mapping.Old, "/") { // a port: another server
				continue
			}
			longest, use = len(mapping.Old), mapping
		}
	}
	if longest < 0 {
		return "", false, false
	}
	if scheme != "oci" && use.PlainHTTP {
		scheme = "http" // as it is said of the mirror
	}
	return scheme + "://" + use.New + rest[longest:], use.PlainHTTP, true
}
