package bundle

import (
	"archive/tar"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/oci"
)

// Layout is an OCI image layout in a folder, in which a bundle is made. Remove it after.
type Layout struct {
	*oci.Storage

	dir string
}

// NewLayout makes a layout in a new folder below one.
func NewLayout(below string) (*Layout, error) {
	dir, err := os.MkdirTemp(below, ".kplan-bundle-")
	if err != nil {
		return nil, err
	}
	s, err := oci.NewStorage(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Layout{s, dir}, nil
}

// Remove removes the folder.
func (l *Layout) Remove() error { return os.RemoveAll(l.dir) }

// Write writes the layout as a tar archive, with root as its one entry. The same
// content gives the same bytes: it has no times and no owners. The file appears whole
// or not at all.
func (l *Layout) Write(ctx context.Context, file string, root ocispec.Descriptor) error {
	index, err := json.Marshal(ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{root},
	})
	if err != nil {
		return err
	}
	layout, err := json.Marshal(ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-")
	if err != nil {
		return err
	}
	w := tar.NewWriter(tmp)
	err = cmp.Or(add(w, ocispec.ImageLayoutFile, layout), add(w, ocispec.ImageIndexFile, index), l.addBlobs(ctx, w), w.Close())
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

func header(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size, Format: tar.FormatUSTAR}
}

func add(w *tar.Writer, name string, text []byte) error {
	err := w.WriteHeader(header(name, int64(len(text))))
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// addBlobs adds the blobs in the order of their digests.
func (l *Layout) addBlobs(ctx context.Context, w *tar.Writer) error {
	folder := path.Join(ocispec.ImageBlobsDir, "sha256")
	entries, err := os.ReadDir(filepath.Join(l.dir, filepath.FromSlash(folder)))
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := l.addBlob(w, path.Join(folder, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (l *Layout) addBlob(w *tar.Writer, name string) error {
	f, err := os.Open(filepath.Join(l.dir, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h := header(name, info.Size())
	if info.Size() >= 8<<30 { // more than the old form of the header can say
		h.Format = tar.FormatGNU
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

// entry reads a small file of a tar archive, such as a layout's index.
func entry(file, name string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := tar.NewReader(f)
	for {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, invalid("the file %s is no bundle: it has no %s", file, name)
		case err != nil:
			return nil, notWhole(file, err)
		case path.Clean(h.Name) != name:
			continue
		case h.Size > maxJSON:
			return nil, invalid("the file %s is no bundle: its %s has %d bytes", file, name, h.Size)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return nil, notWhole(file, fmt.Errorf("reading %s: %w", name, err))
		}
		return text, nil
	}
}
