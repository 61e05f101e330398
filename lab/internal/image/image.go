// Package image makes container images of one static binary, as a tar file
// that containerd imports. It pulls and pushes nothing.
package image

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Options of an image.
type Options struct {
	Name string // e.g. "kplan.dev/operator:dev"; the tag defaults to latest
	User string // uid[:gid] of the process; empty is root
}

// Write writes an image whose only layer is the static binary and an empty
// /tmp, and whose entry point is that binary. The same binary gives the same
// image.
func Write(w io.Writer, binary string, o Options) error {
	tag, err := name.NewTag(o.Name)
	if err != nil {
		return fmt.Errorf("image name: %w", err)
	}
	if err := checkStatic(binary); err != nil {
		return err
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	entry := "/" + filepath.Base(binary)
	layer, err := layerOf(entry, data)
	if err != nil {
		return err
	}
	base, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH,
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			Entrypoint: []string{entry}, User: o.User, WorkingDir: "/",
			Env: []string{"PATH=/"},
		},
	})
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return err
	}
	return tarball.Write(tag, image, w)
}

func layerOf(entry string, data []byte) (v1.Layer, error) {
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	epoch := time.Unix(0, 0)
	tmp := &tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777, ModTime: epoch}
	binary := &tar.Header{Name: entry[1:], Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(data)), ModTime: epoch}
	err := errors.Join(archive.WriteHeader(tmp), archive.WriteHeader(binary))
	if err == nil {
		_, err = archive.Write(data)
	}
	if err := errors.Join(err, archive.Close()); err != nil {
		return nil, err
	}
	// Not compressed in effect: the tar goes to a socket on this machine.
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(buffer.Bytes())), nil
	}, tarball.WithCompressionLevel(0))
}

// checkStatic refuses what is no Linux binary of this machine's kind, and
// binaries that need a loader.
func checkStatic(path string) error {
	file, err := elf.Open(path)
	if err != nil {
		var format *elf.FormatError
		if errors.As(err, &format) || errors.Is(err, io.EOF) {
			return fmt.Errorf("%s is not a Linux binary: %w", path, err)
		}
		return err
	}
	defer file.Close()
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			loader, err := io.ReadAll(segment.Open())
			if err != nil {
				return err
			}
			return fmt.Errorf("%s is not static: it needs %s (build it with CGO_ENABLED=0)", path, bytes.TrimRight(loader, "\x00"))
		}
	}
	return nil
}
