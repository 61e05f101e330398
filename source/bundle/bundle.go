// Package bundle puts a plan with all that it needs into one OCI image layout, for
// places from which nothing else can be reached: the files that the plan reads, what
// it fetches, its lock file, and the container images that it runs.
//
// A bundle is an image index with a manifest of the plan's own, see Manifest, and one
// for each image. It fetches no charts and renders none: it is told what to take.
package bundle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
)

// Media types of bundles.
const (
	// ArtifactType is that of the index and of the plan's manifest.
	ArtifactType = "application/vnd.kplan.bundle.v1"
	contentsType = "application/vnd.kplan.bundle.contents.v1+json"
	fileType     = "application/vnd.kplan.bundle.file.v1"
	sourceType   = "application/vnd.kplan.bundle.source.v1"
)

// Contents is what a bundle has. Paths are relative, with slashes.
type Contents struct {
	// Name is the plan's.
	Name string `json:"name"`
	// Plan is the path of the plan's file.
	Plan string `json:"plan"`
	// VarFiles are the paths of files of variables, and Set are pairs of name=value, that
	// the bundle was made with; they hold when it is run.
	VarFiles []string `json:"var_files,omitempty"`
	Set      []string `json:"set,omitempty"`
	// Again are sensitive variables whose values were given and are not in the bundle.
	Again []string `json:"give_again,omitempty"`
	// Files are those that the plan reads.
	Files []File `json:"files"`
	// Withheld are files that the plan names and that are nobody else's business, such as
	// the keys of client certificates. They are empty where the bundle is unpacked.
	Withheld []string `json:"withheld,omitempty"`
	// Sources are what the plan fetches.
	Sources []Source `json:"sources,omitempty"`
	// Images are those that the rendered manifests name.
	Images []Image `json:"images,omitempty"`
}

// File is a file that a plan reads.
type File struct {
	Path   string `json:"path"`
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
	// Bytes are its content, for Make.
	Bytes []byte `json:"-"`
}

// Source is something that a plan fetches.
type Source struct {
	source.Reference
	Found Found `json:"found"`
	// Bytes are its content, for Make.
	Bytes []byte `json:"-"`
}

// Found is what a reference led to.
type Found struct {
	Name        string            `json:"name,omitempty"`
	Version     string            `json:"version,omitempty"`
	Digest      string            `json:"digest"`
	Manifest    string            `json:"manifest,omitempty"`
	Origin      string            `json:"origin,omitempty"`
	MediaType   string            `json:"media_type,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Size        int64             `json:"size"`
}

// SourceOf returns what goes into a bundle of something that was fetched. key returns
// the reference without logins.
func SourceOf(f source.Fetched, key source.Reference) Source {
	a := f.Archive
	return Source{Reference: key, Bytes: a.Bytes, Found: Found{
		Name: a.Name, Version: a.Version, Digest: a.Digest, Manifest: a.Manifest, Origin: a.Origin, MediaType: a.MediaType,
		Annotations: a.Annotations, Size: int64(len(a.Bytes)),
	}}
}

// Image is a container image that a plan's objects name.
type Image struct {
	// Name is as the objects have it.
	Name string `json:"name"`
	// Steps are the names of those whose objects have it.
	Steps []string `json:"steps,omitempty"`
	// Digest is that of the image's manifest or index in the bundle, Size that of all its
	// parts in bytes; both are zero when the image is not in it.
	Digest string `json:"digest,omitempty"`
	Size   int64  `json:"size,omitempty"`
	// Platforms are those that were taken; none means all.
	Platforms []string `json:"platforms,omitempty"`

	root ocispec.Descriptor
}

// sort brings all lists into one order, so that the same content has the same digest.
func (c *Contents) sort() {
	slices.SortFunc(c.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(c.Sources, func(a, b Source) int { return a.Compare(b.Reference) })
	slices.SortFunc(c.Images, func(a, b Image) int { return cmp.Compare(a.Name, b.Name) })
}

// check reports what is wrong with the contents of a bundle that somebody made: paths
// that lead out of the folder that they are unpacked into.
func (c *Contents) check() error {
	var names []string
	for _, f := range c.Files {
		names = append(names, f.Path)
	}
	for _, name := range slices.Concat(names, c.VarFiles, c.Withheld, []string{c.Plan}) {
		if !filepath.IsLocal(filepath.FromSlash(name)) || path.Clean(name) != name || strings.ContainsAny(name, "\\\x00") {
			return invalid("the path %q leads out of the bundle", name)
		}
	}
	for _, name := range append(slices.Clone(c.VarFiles), c.Plan) {
		if !slices.Contains(names, name) {
			return invalid("it has no file %s", name)
		}
	}
	return nil
}

// InvalidError says that a bundle cannot be used.
type InvalidError struct{ error }

// Unwrap returns what is wrong with it.
func (e *InvalidError) Unwrap() error { return e.error }

// Usage reports that the input is at fault.
func (e *InvalidError) Usage() bool { return true }

func invalid(format string, args ...any) error {
	return runner.Permanent(&InvalidError{fmt.Errorf(format, args...)})
}

// Make puts a bundle into a storage and returns its root: an index. Images are in the
// storage already: see AddImage. The same contents have the same digest.
func Make(ctx context.Context, to content.Storage, c Contents) (ocispec.Descriptor, error) {
	c.sort()
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: ArtifactType}
	seen := map[string]bool{}
	layer := func(mediaType, title string, b []byte) (ocispec.Descriptor, error) {
		desc := content.NewDescriptorFromBytes(mediaType, b)
		if err := put(ctx, to, desc, b); err != nil {
			return desc, err
		}
		if !seen[desc.Digest.String()] { // a registry wants each once
			seen[desc.Digest.String()] = true
			desc.Annotations = map[string]string{ocispec.AnnotationTitle: title}
			m.Layers = append(m.Layers, desc)
		}
		return desc, nil
	}
	for i := range c.Files {
		f := &c.Files[i]
		desc, err := layer(fileType, f.Path, f.Bytes)
		if err != nil {
			return desc, fmt.Errorf("file %s: %w", f.Path, err)
		}
		f.Digest, f.Size = desc.Digest.String(), desc.Size
	}
	for i := range c.Sources {
		s := &c.Sources[i]
		desc, err := layer(cmp.Or(ociType(s.Found.MediaType), sourceType), s.Name, s.Bytes)
		if err != nil {
			return desc, fmt.Errorf("%s: %w", s.Reference, err)
		}
		if desc.Digest.String() != s.Found.Digest {
			return desc, fmt.Errorf("%s: its content is %s, and not %s", s.Reference, desc.Digest, s.Found.Digest)
		}
	}
	if err := c.check(); err != nil {
		return ocispec.Descriptor{}, err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	m.Config = content.NewDescriptorFromBytes(contentsType, text)
	if err := put(ctx, to, m.Config, text); err != nil {
		return m.Config, err
	}
	own, err := putJSON(ctx, to, m.MediaType, m)
	if err != nil {
		return own, err
	}
	own.ArtifactType = ArtifactType
	x := ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, ArtifactType: ArtifactType,
		Manifests: append([]ocispec.Descriptor{own}, roots(c.Images)...),
	}
	root, err := putJSON(ctx, to, x.MediaType, x)
	root.ArtifactType = ArtifactType
	return root, err
}

// ociType is a media type that registries take; "" for what a web server said.
func ociType(mediaType string) string {
	if strings.HasPrefix(mediaType, "application/vnd.") && !strings.ContainsAny(mediaType, "; ") {
		return mediaType
	}
	return ""
}

// roots are the descriptors of the images that are in the bundle, each once, named as the
// first of those that have it.
func roots(images []Image) []ocispec.Descriptor {
	var all []ocispec.Descriptor
	for _, i := range images {
		if i.Digest == "" || slices.ContainsFunc(all, func(d ocispec.Descriptor) bool { return d.Digest == i.root.Digest }) {
			continue
		}
		desc := ocispec.Descriptor{MediaType: i.root.MediaType, Digest: i.root.Digest, Size: i.root.Size}
		desc.Annotations = map[string]string{ocispec.AnnotationRefName: i.Name}
		all = append(all, desc)
	}
	return all
}

// put pushes a content that may be there already.
func put(ctx context.Context, to content.Storage, desc ocispec.Descriptor, b []byte) error {
	if err := to.Push(ctx, desc, bytes.NewReader(b)); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
		return err
	}
	return nil
}

func putJSON(ctx context.Context, to content.Storage, mediaType string, v any) (ocispec.Descriptor, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	desc := content.NewDescriptorFromBytes(mediaType, text)
	return desc, put(ctx, to, desc, text)
}
