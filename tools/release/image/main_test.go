package main

import (
	"archive/tar"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var release = facts{version: "v1.2.3", revision: "0123456789abcdef", created: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}

// The same binaries make the same image, wherever they lie.
func TestReproducible(t *testing.T) {
	first, err := build(release, binaries(t))
	require.NoError(t, err)
	again, err := build(release, binaries(t))
	require.NoError(t, err)
	assert.Equal(t, digestOf(t, first), digestOf(t, again))

	later := release
	later.created = later.created.Add(time.Second)
	other, err := build(later, binaries(t))
	require.NoError(t, err)
	assert.NotEqual(t, digestOf(t, first), digestOf(t, other), "the time of the commit is in the image")
}

func TestContents(t *testing.T) {
	index, err := build(release, binaries(t))
	require.NoError(t, err)
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 2)
	for i, arch := range []string{"amd64", "arm64"} {
		assert.Equal(t, "linux/"+arch, manifest.Manifests[i].Platform.String())
		img, err := index.Image(manifest.Manifests[i].Digest)
		require.NoError(t, err)
		file, err := img.ConfigFile()
		require.NoError(t, err)
		assert.Equal(t, arch, file.Architecture)
		assert.Equal(t, "65532:65532", file.Config.User)
		assert.Equal(t, "v1.2.3", file.Config.Labels["org.opencontainers.image.version"])

		files := filesOf(t, img)
		assert.Equal(t, "binary of "+arch, files["usr/bin/kplan"].body)
		assert.EqualValues(t, 0o755, files["usr/bin/kplan"].Mode)
		assert.Equal(t, "kplan", files["usr/bin/kubectl-kplan"].Linkname)
		assert.Equal(t, nobody, files["home/kplan/"].Uid)
		assert.EqualValues(t, 0o1777, files["tmp/"].Mode)
		assert.Contains(t, files["etc/passwd"].body, ":65532:65532:")
		pool := x509.NewCertPool()
		require.True(t, pool.AppendCertsFromPEM([]byte(files[certificates].body)))
		assert.Equal(t, strings.Count(files[certificates].body, "BEGIN CERTIFICATE"), strings.Count(files[certificates].body, "# SHA-256"))
	}
}

// What is written and what is pushed is the same image, and its digest is printed.
func TestRun(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	repository := strings.TrimPrefix(server.URL, "http://") + "/kplan"
	out := filepath.Join(t.TempDir(), "image")
	args := append([]string{
		"--version", "v1.2.3", "--revision", "0123", "--created", "2026-11-23T12:00:00Z",
		"--out", out, "--push", repository, "--tag", "v1.2.3", "--tag", "latest",
	}, binaries(t)...)
	require.NoError(t, run(args))

	l, err := layout.ImageIndexFromPath(out)
	require.NoError(t, err)
	saved, err := l.IndexManifest()
	require.NoError(t, err)
	require.Len(t, saved.Manifests, 1)
	for _, tag := range []string{"v1.2.3", "latest"} {
		ref, err := name.ParseReference(repository + ":" + tag)
		require.NoError(t, err)
		pushed, err := remote.Index(ref)
		require.NoError(t, err)
		require.NoError(t, validate.Index(pushed))
		assert.Equal(t, saved.Manifests[0].Digest, digestOf(t, pushed))
	}
}

func TestUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"nothing":           {},
		"no binary":         {"--version", "v1", "--revision", "0", "--created", "2026-11-23T12:00:00Z"},
		"no time":           {"--version", "v1", "--revision", "0", "--created", "today", "linux/amd64=kplan"},
		"no platform":       {"--version", "v1", "--revision", "0", "--created", "2026-11-23T12:00:00Z", "kplan"},
		"no such binary":    {"--version", "v1", "--revision", "0", "--created", "2026-11-23T12:00:00Z", "linux/amd64=nowhere/kplan"},
		"push without tags": append([]string{"--version", "v1", "--revision", "0", "--created", "2026-11-23T12:00:00Z", "--push", "127.0.0.1:1/kplan"}, binaries(t)...),
	} {
		t.Run(name, func(t *testing.T) { require.Error(t, run(args)) })
	}
}

// binaries are two, each in a folder of its own.
func binaries(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, arch := range []string{"amd64", "arm64"} {
		file := filepath.Join(t.TempDir(), "kplan")
		require.NoError(t, os.WriteFile(file, []byte("binary of "+arch), 0o600))
		all = append(all, "linux/"+arch+"="+file)
	}
	return all
}

func digestOf(t *testing.T, index v1.ImageIndex) v1.Hash {
	t.Helper()
	d, err := index.Digest()
	require.NoError(t, err)
	return d
}

// file is an entry of a layer.
type file struct {
	*tar.Header
	body string
}

// filesOf are the files of all layers, by name.
func filesOf(t *testing.T, img v1.Image) map[string]file {
	t.Helper()
	layers, err := img.Layers()
	require.NoError(t, err)
	files := map[string]file{}
	for _, l := range layers {
		r, err := l.Uncompressed()
		require.NoError(t, err)
		for entries := tar.NewReader(r); ; {
			h, err := entries.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			body, err := io.ReadAll(entries)
			require.NoError(t, err)
			files[h.Name] = file{Header: h, body: string(body)}
		}
		require.NoError(t, r.Close())
	}
	return files
}
