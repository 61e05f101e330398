package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
)

// Bounds of what is read of a bundle, in bytes: it may come from anybody.
const (
	maxJSON = 16 << 20
	maxFile = 128 << 20
)

// Bundle is a bundle that was opened. It is safe for concurrent use.
type Bundle struct {
	Contents
	// Root is the descriptor of its index.
	Root ocispec.Descriptor

	from content.ReadOnlyStorage
	// layers are the descriptors of the plan's contents, by digest.
	layers map[string]ocispec.Descriptor
}

// IsFile reports whether a plan argument is the path of a bundle's file, by its name:
// .tar.
func IsFile(name string) bool { return strings.EqualFold(filepath.Ext(name), ".tar") }

// OpenFile opens the bundle in a tar file. Nothing is unpacked. It fails with an
// *InvalidError when the file is no bundle, or not whole.
func OpenFile(ctx context.Context, path string) (*Bundle, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	store, err := oci.NewStorageFromTar(path)
	if err != nil {
		return nil, notWhole(path, err)
	}
	root, err := rootOf(path)
	if err != nil {
		return nil, err
	}
	return Open(ctx, store, root)
}

// notWhole says that a file is no tar archive, or ends too early.
func notWhole(path string, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return runner.WithHint(invalid("the bundle %s is not whole: it ends too early", path), "copy it anew, and compare the checksums of both files")
	}
	return runner.WithHint(invalid("the file %s is no bundle: %w", path, err), "bundles are made by kplan bundle")
}

// rootOf reads the layout's index.json for the bundle in it.
func rootOf(path string) (root ocispec.Descriptor, err error) {
	var x ocispec.Index
	text, err := entry(path, ocispec.ImageIndexFile)
	if err != nil {
		return root, err
	}
	if err := json.Unmarshal(text, &x); err != nil {
		return root, invalid("the file %s is no bundle: its %s: %w", path, ocispec.ImageIndexFile, err)
	}
	var found []ocispec.Descriptor
	for _, d := range x.Manifests {
		if d.ArtifactType == ArtifactType {
			found = append(found, d)
		}
	}
	if len(found) != 1 {
		return root, runner.WithHint(invalid("the file %s is an OCI layout, but no bundle of kplan", path), "bundles are made by kplan bundle")
	}
	return found[0], nil
}

// Open opens the bundle with a root in a storage.
func Open(ctx context.Context, from content.ReadOnlyStorage, root ocispec.Descriptor) (*Bundle, error) {
	b := &Bundle{Root: root, from: from, layers: map[string]ocispec.Descriptor{}}
	var x ocispec.Index
	if err := b.json(ctx, root, &x); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(x.Manifests, func(d ocispec.Descriptor) bool { return d.ArtifactType == ArtifactType })
	if x.ArtifactType != ArtifactType || i < 0 {
		return nil, runner.WithHint(invalid("it is no bundle of kplan"), "bundles are made by kplan bundle")
	}
	var m ocispec.Manifest
	if err := b.json(ctx, x.Manifests[i], &m); err != nil {
		return nil, err
	}
	if m.Config.MediaType != contentsType {
		return nil, runner.WithHint(invalid("the bundle is of a form that this kplan does not know: %s", m.Config.MediaType), "use the kplan that made it, or a newer one")
	}
	if err := b.json(ctx, m.Config, &b.Contents); err != nil {
		return nil, err
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	for _, l := range m.Layers {
		b.layers[l.Digest.String()] = l
	}
	for k := range b.Images {
		j := slices.IndexFunc(x.Manifests, func(d ocispec.Descriptor) bool { return d.Digest.String() == b.Images[k].Digest })
		if j >= 0 {
			b.Images[k].root = x.Manifests[j]
		} else if b.Images[k].Digest != "" {
			return nil, invalid("the bundle does not have the image %s, which it lists", b.Images[k].Name)
		}
	}
	return b, nil
}

// json reads a part that is JSON.
func (b *Bundle) json(ctx context.Context, desc ocispec.Descriptor, v any) error {
	text, err := b.read(ctx, desc, maxJSON)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return invalid("the bundle's %s: %w", desc.MediaType, err)
	}
	return nil
}

// read reads a part, and checks that it is the one that is meant.
func (b *Bundle) read(ctx context.Context, desc ocispec.Descriptor, most int64) ([]byte, error) {
	if desc.Size > most || desc.Size < 0 {
		return nil, invalid("a part of the bundle has %d bytes: that are too many", desc.Size)
	}
	if err := desc.Digest.Validate(); err != nil {
		return nil, invalid("the bundle has a digest that is none: %w", err)
	}
	r, err := b.from.Fetch(ctx, desc)
	switch {
	case errors.Is(err, errdef.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return nil, invalid("the bundle is not whole: it lacks %s", desc.Digest)
	case err != nil:
		return nil, err
	}
	defer r.Close()
	text, err := content.ReadAll(r, desc)
	switch {
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData), errors.Is(err, content.ErrInvalidDescriptorSize):
		return nil, invalid("the bundle was changed: its part %s has another content", desc.Digest)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, invalid("the bundle is not whole: its part %s ends too early", desc.Digest)
	}
	return text, err
}

// part reads one of the plan's contents.
func (b *Bundle) part(ctx context.Context, name string) ([]byte, error) {
	desc, ok := b.layers[name]
	if !ok {
		return nil, invalid("the bundle is not whole: it lacks %s", name)
	}
	return b.read(ctx, desc, maxFile)
}

// Unpack writes the files of the plan into a folder, and nothing outside of it.
func (b *Bundle) Unpack(ctx context.Context, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range b.Files {
		text, err := b.part(ctx, f.Digest)
		if err != nil {
			return fmt.Errorf("file %s: %w", f.Path, err)
		}
		if err := write(root, f.Path, text); err != nil {
			return err
		}
	}
	for _, name := range b.Withheld {
		if err := write(root, name, nil); err != nil {
			return err
		}
	}
	return nil
}

func write(root *os.Root, path string, text []byte) error {
	name := filepath.FromSlash(path)
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return root.WriteFile(name, text, 0o600)
}

// AbsentError says that a bundle does not have what a plan refers to.
type AbsentError struct{ Reference source.Reference }

// Error implements error.
func (e *AbsentError) Error() string { return "the bundle does not have " + e.Reference.String() }

// Sources answers for what a plan of the bundle refers to: it is a source.Contents
// that has nothing fetched.
type Sources struct {
	Bundle *Bundle
	// Key returns a reference as the bundle has it.
	Key func(source.Reference) source.Reference
}

var _ source.Contents = Sources{}

// Content implements source.Contents. It fails with an *AbsentError. The store checks
// what it returns against the lock.
func (s Sources) Content(ctx context.Context, ref source.Reference, _ *source.Pin) (*source.Archive, error) {
	key := s.Key(ref)
	for _, have := range s.Bundle.Sources {
		if have.Reference != key {
			continue
		}
		text, err := s.Bundle.part(ctx, have.Found.Digest)
		if err != nil {
			return nil, err
		}
		f := have.Found
		return &source.Archive{
			Name: f.Name, Version: f.Version, Digest: f.Digest, Manifest: f.Manifest,
			Origin: f.Origin, MediaType: f.MediaType, Annotations: f.Annotations, Bytes: text,
		}, nil
	}
	return nil, runner.WithHint(runner.Permanent(&AbsentError{ref}),
		"nothing is fetched for a bundle; make it anew, with the variables that the run has")
}
