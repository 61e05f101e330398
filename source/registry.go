package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// Media types of layers that are wanted: those of Helm's charts (helm/helm
// pkg/registry/constants.go) and of Flux's artifacts (fluxcd/pkg oci/globals.go).
var (
	chartLayers    = []string{"application/vnd.cncf.helm.chart.content.v1.tar+gzip", "application/tar+gzip"}
	artifactLayers = []string{"application/vnd.cncf.flux.content.v1.tar+gzip", ocispec.MediaTypeImageLayerGzip, "application/tar+gzip"}
)

// provenanceLayer is the type of the layer beside a chart's (helm/helm
// pkg/registry/constants.go).
const provenanceLayer = "application/vnd.cncf.helm.chart.provenance.v1.prov"

// place is one thing in a registry.
type place struct {
	// repository is HOST/PATH.
	repository string
	tag        string
	// digest is that of a manifest.
	digest string
}

// parsePlace reads oci://HOST/PATH[:TAG][@DIGEST].
func parsePlace(address string) place {
	repository, tag, digest := plan.SplitReference(strings.TrimPrefix(address, scheme))
	return place{repository: repository, tag: tag, digest: digest}
}

// repository connects to what has a place.
func (s *Store) repository(at place, how *access, plainHTTP bool) (*remote.Repository, error) {
	r, err := remote.NewRepository(at.repository)
	if err != nil {
		return nil, runner.Permanent(err)
	}
	docker, err := s.logins.credentials()
	if err != nil {
		return nil, err
	}
	client, err := how.connect()
	if err != nil {
		return nil, err
	}
	a := &auth.Client{Client: client, Credential: how.login(docker), Cache: how.tokens, Header: http.Header{}}
	if s.options.UserAgent != "" {
		a.SetUserAgent(s.options.UserAgent)
	}
	r.Client, r.PlainHTTP = a, plainHTTP || how.PlainHTTP
	return r, nil
}

// fromRegistry gets a chart from an OCI registry.
func (s *Store) fromRegistry(ctx context.Context, how *access, c Chart, pin *Pin) (*Archive, error) {
	at := parsePlace(c.Name)
	version := pin.version(cmp.Or(c.Version, at.tag))
	if c.Version != "" && at.tag != "" && c.Version != versionOf(at.tag) && c.Version != at.tag {
		return nil, runner.Permanent(fmt.Errorf("the address says version %s, and the step says %s", at.tag, c.Version))
	}
	repository, err := s.repository(at, how, c.PlainHTTP)
	if err != nil {
		return nil, err
	}
	at.tag = version
	if at.digest == "" && !isExact(version) {
		if at.tag, err = newest(ctx, repository, version); err != nil {
			return nil, err
		}
	}
	a, err := s.pull(ctx, KindChart, repository, at, chartLayers)
	if errors.Is(err, errdef.ErrNotFound) && at.digest == "" {
		if _, absent := newest(ctx, repository, version); runner.HintOf(absent) != "" {
			err = absent
		}
	}
	if err != nil {
		return nil, err
	}
	a.Name = at.repository[strings.LastIndex(at.repository, "/")+1:]
	return a, s.verifyPulled(ctx, repository, c, a)
}

// verifyPulled checks a chart of a registry by its layer with the provenance file, or by
// cosign's signatures.
func (s *Store) verifyPulled(ctx context.Context, r *remote.Repository, c Chart, a *Archive) error {
	if c.CosignKey != "" {
		return s.checkCosign(ctx, r, a.Manifest, c.CosignKey)
	}
	if c.Keyring == "" {
		return nil
	}
	_, m, err := s.manifest(ctx, r, place{digest: a.Manifest})
	if err != nil {
		return err
	}
	layer, ok := pick(m.Layers, []string{provenanceLayer})
	if !ok {
		return unverified("it has no provenance file: it was pushed without")
	}
	prov, err := s.blob(ctx, r, layer)
	if err != nil {
		return fmt.Errorf("reading its provenance file: %w", err)
	}
	return CheckProvenance(c.Keyring, a.Name+"-"+versionOf(a.Version)+".tgz", a.Bytes, prov)
}

// newest returns the tag that a version or a constraint on it means. Of tags that
// are no versions it knows nothing.
func newest(ctx context.Context, r *remote.Repository, version string) (string, error) {
	var all []*semver.Version
	err := r.Tags(ctx, "", func(tags []string) error {
		for _, t := range tags {
			if v, err := semver.StrictNewVersion(versionOf(t)); err == nil {
				all = append(all, v)
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	slices.SortFunc(all, func(a, b *semver.Version) int { return b.Compare(a) })
	i, err := match(all, version)
	switch {
	case err != nil:
		return "", err
	case len(all) == 0:
		return "", runner.Permanent(errors.New("the registry has no version of it"))
	case i < 0:
		return "", absentVersion(version, all)
	}
	return all[i].Original(), nil
}

// Tags have no plus sign, for which Helm writes an underscore (helm/helm#10166).
func tagOf(version string) string { return strings.ReplaceAll(version, "+", "_") }
func versionOf(tag string) string { return strings.ReplaceAll(tag, "_", "+") }

// pull gets the one layer of a manifest that has one of the media types; the first
// ones are preferred.
func (s *Store) pull(ctx context.Context, kind Kind, r *remote.Repository, at place, types []string) (*Archive, error) {
	digest, manifest, err := s.manifest(ctx, r, at)
	if err != nil {
		return nil, err
	}
	layer, ok := pick(manifest.Layers, types)
	if !ok {
		return nil, runner.Permanent(fmt.Errorf("it is no %s: its manifest has no layer of type %s", kind, types[0]))
	}
	a := &Archive{
		Name: scheme + at.repository, Version: at.tag, Digest: layer.Digest.String(), Manifest: digest,
		Origin: scheme + at.repository, MediaType: layer.MediaType, Annotations: manifest.Annotations,
	}
	a.Bytes, err = s.blob(ctx, r, layer)
	return a, err
}

// blob gets what a descriptor describes, of SHA-256 only.
func (s *Store) blob(ctx context.Context, r *remote.Repository, desc ocispec.Descriptor) ([]byte, error) {
	if b := s.cache.blob(desc.Digest.String()); b != nil {
		tell(ctx, Progress{Cached: true})
		return b, nil
	}
	if desc.Size > largest {
		return nil, runner.Permanent(fmt.Errorf("it is larger than %d MiB", largest>>20))
	}
	body, err := r.Blobs().Fetch(ctx, desc)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	b, err := content.ReadAll(&counted{Reader: body, tell: func(n int64) { tell(ctx, Progress{Done: n, Total: desc.Size}) }}, desc)
	if err != nil {
		return nil, err
	}
	if digestOf(b) != desc.Digest.String() {
		return nil, runner.Permanent(fmt.Errorf("its digest %s is none of SHA-256", desc.Digest))
	}
	s.cache.put(b)
	return b, nil
}

// manifest gets the manifest of a tag or digest, and its digest. When the registry is
// away it is the one that a tag which is a version had in an earlier run.
func (s *Store) manifest(ctx context.Context, r *remote.Repository, at place) (digest string, m *ocispec.Manifest, err error) {
	key := "MANIFEST " + at.repository + ":" + tagOf(at.tag)
	digest, text, err := s.manifestText(ctx, r, cmp.Or(at.digest, tagOf(at.tag)))
	switch {
	case err == nil && at.digest == "":
		s.cache.keep(note{Key: key, Digest: digest})
	case err != nil && isUnreachable(err) && (at.digest != "" || isExact(at.tag)):
		digest = at.digest
		if known := s.cache.note(key); digest == "" && known != nil {
			digest = known.Digest
		}
		if text = s.cache.blob(digest); text == nil {
			return "", nil, err
		}
		tell(ctx, Progress{Note: kept(err)})
	case err != nil:
		return "", nil, err
	}
	m = &ocispec.Manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return "", nil, runner.Permanent(fmt.Errorf("reading its manifest: %w", err))
	}
	return digest, m, nil
}

// manifestText gets the text of a manifest.
func (s *Store) manifestText(ctx context.Context, r *remote.Repository, reference string) (digest string, text []byte, err error) {
	desc, body, err := r.FetchReference(ctx, reference)
	if err != nil {
		return "", nil, err
	}
	defer body.Close()
	const most = 4 << 20
	if desc.Size > most {
		return "", nil, runner.Permanent(fmt.Errorf("its manifest is larger than %d MiB", most>>20))
	}
	if text, err = content.ReadAll(io.LimitReader(body, most), desc); err != nil {
		return "", nil, err
	}
	s.cache.put(text)
	return desc.Digest.String(), text, nil
}

// pick returns the first layer of the first type that there is.
func pick(layers []ocispec.Descriptor, types []string) (ocispec.Descriptor, bool) {
	for _, t := range types {
		for _, l := range layers {
			if l.MediaType == t {
				return l, true
			}
		}
	}
	return ocispec.Descriptor{}, false
}

// Artifact is an archive of files in a registry, as Flux and ORAS push them.
type Artifact struct {
	// Name is oci://HOST/PATH[:TAG][@DIGEST]; without tag and digest it is latest.
	Name string
	// PlainHTTP talks to the registry without TLS.
	PlainHTTP bool
}

// Reference returns what lock files and bundles know the artifact by.
func (a Artifact) Reference() Reference { return Reference{Kind: KindArtifact, Name: a.Name} }

// Artifact returns the files of an artifact, as a tar archive with gzip. It fails as
// Chart does.
func (s *Store) Artifact(ctx context.Context, want Artifact) (*Archive, error) {
	ref := want.Reference()
	a, err := s.once(ctx, want, ref, func(ctx context.Context, pin *Pin) (*Archive, error) {
		at := parsePlace(want.Name)
		at.tag = cmp.Or(pin.version(at.tag), "latest")
		how, err := s.logins.to(want.Name, nil)
		if err != nil {
			return nil, err
		}
		repository, err := s.repository(at, how, want.PlainHTTP)
		if err != nil {
			return nil, err
		}
		return s.pull(ctx, KindArtifact, repository, at, artifactLayers)
	})
	if err != nil {
		return nil, explain(ctx, fmt.Errorf("fetching %s: %w", want.Name, err),
			"check the address with: flux pull artifact "+want.Name+"; log in to a private registry with: helm registry login", want.Name)
	}
	return a, nil
}
