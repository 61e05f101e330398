//go:build linux

package image

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
)

// static builds a small static binary.
func static(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pause")
	cmd := exec.Command("go", "build", "-o", path, "../../cmd/pause")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// The image holds the binary, starts it, and is the same each time.
func TestWrite(t *testing.T) {
	binary := static(t)
	var first, second bytes.Buffer
	options := Options{Name: "kplan.dev/lab/pause:dev", User: "65532"}
	require.NoError(t, Write(&first, binary, options))
	require.NoError(t, Write(&second, binary, options))
	require.True(t, bytes.Equal(first.Bytes(), second.Bytes()), "same binary, same image")

	image, err := tarball.Image(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(first.Bytes())), nil
	}, nil)
	require.NoError(t, err)
	config, err := image.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, []string{"/pause"}, config.Config.Entrypoint)
	require.Equal(t, "65532", config.Config.User)

	layers, err := image.Layers()
	require.NoError(t, err)
	require.Len(t, layers, 1)
	content, err := layers[0].Uncompressed()
	require.NoError(t, err)
	defer content.Close()
	modes := map[string]int64{}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		modes[header.Name] = header.Mode
	}
	require.Equal(t, map[string]int64{"tmp/": 0o1777, "pause": 0o755}, modes)
}

// What could not run alone in an image is refused before it is loaded.
func TestWriteRefuses(t *testing.T) {
	shell, err := exec.LookPath("sh")
	require.NoError(t, err)
	require.ErrorContains(t, Write(io.Discard, shell, Options{Name: "sh"}), "is not static: it needs /")

	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("#!/bin/sh\n"), 0o600))
	require.ErrorContains(t, Write(io.Discard, text, Options{Name: "text"}), "is not a Linux binary")
	require.ErrorIs(t, Write(io.Discard, "/absent", Options{Name: "absent"}), os.ErrNotExist)
	require.ErrorContains(t, Write(io.Discard, shell, Options{Name: "Not A Name"}), "image name")
}
