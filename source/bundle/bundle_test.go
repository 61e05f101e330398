package bundle_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
	"oras.land/oras-go/v2/content"

	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/source/bundle"
)

var race = source.Reference{Kind: source.KindChart, Name: "oci://example.com/race", Version: "^1.0"}

func sample() bundle.Contents {
	b := []byte("what is in the archive")
	return bundle.Contents{
		Name: "sample", Plan: "apps/plan.yaml", VarFiles: []string{"production.yaml"},
		Files: []bundle.File{
			{Path: "production.yaml", Bytes: []byte("a: 1\n")},
			{Path: "apps/plan.yaml", Bytes: []byte("kind: Plan\n")},
			{Path: "apps/same.yaml", Bytes: []byte("a: 1\n")},
		},
		Sources: []bundle.Source{{Reference: race, Bytes: b, Found: bundle.Found{
			Name: "race", Version: "1.2.0", Digest: content.NewDescriptorFromBytes("", b).Digest.String(), Size: int64(len(b)),
		}}},
		Images: []bundle.Image{{Name: "nginx:1.27", Steps: []string{"race"}}},
	}
}

// made writes a bundle and returns its file.
func made(t *testing.T, c bundle.Contents) (file string, root ocispec.Descriptor) {
	t.Helper()
	layout, err := bundle.NewLayout(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, layout.Remove()) })
	root, err = bundle.Make(t.Context(), layout, c)
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "plan.tar")
	require.NoError(t, layout.Write(t.Context(), file, root))
	return file, root
}

// What goes into a bundle comes out of it, and the same content is the same file.
func TestBundle(t *testing.T) {
	file, root := made(t, sample())
	other := sample()
	other.Files[0], other.Files[2] = other.Files[2], other.Files[0]
	again, sameRoot := made(t, other)
	a, err := os.ReadFile(file)
	require.NoError(t, err)
	b, err := os.ReadFile(again)
	require.NoError(t, err)
	require.Equal(t, root.Digest, sameRoot.Digest)
	require.True(t, bytes.Equal(a, b), "the same content is the same file, byte for byte")

	read, err := bundle.OpenFile(t.Context(), file)
	require.NoError(t, err)
	require.Equal(t, root.Digest, read.Root.Digest)
	require.Equal(t, "nginx:1.27", read.Images[0].Name)
	dir := t.TempDir()
	require.NoError(t, read.Unpack(t.Context(), dir))
	for _, f := range sample().Files {
		text, err := os.ReadFile(filepath.Join(dir, f.Path))
		require.NoError(t, err)
		require.Equal(t, string(f.Bytes), string(text), f.Path)
	}

	from := bundle.Sources{Bundle: read, Key: func(r source.Reference) source.Reference { return r }}
	archive, err := from.Content(t.Context(), race, nil)
	require.NoError(t, err)
	require.Equal(t, "what is in the archive", string(archive.Bytes))
	require.Equal(t, "1.2.0", archive.Version)
	_, err = from.Content(t.Context(), source.Reference{Kind: source.KindChart, Name: "oci://example.com/other"}, nil)
	var absent *bundle.AbsentError
	require.ErrorAs(t, err, &absent)
}

// rewrite copies a tar archive and lets change see each file; nil leaves it out.
func rewrite(t *testing.T, file string, change func(name string, text []byte) []byte) string {
	t.Helper()
	in, err := os.Open(file)
	require.NoError(t, err)
	defer in.Close()
	var out bytes.Buffer
	w, r := tar.NewWriter(&out), tar.NewReader(in)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		if text = change(h.Name, text); text == nil {
			continue
		}
		h.Size = int64(len(text))
		require.NoError(t, w.WriteHeader(h))
		_, err = w.Write(text)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	changed := filepath.Join(t.TempDir(), "changed.tar")
	require.NoError(t, os.WriteFile(changed, out.Bytes(), 0o600))
	return changed
}

// A file that is no whole bundle is refused with what is wrong with it.
func TestBadFiles(t *testing.T) {
	file, _ := made(t, sample())
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	written := func(b []byte) string {
		name := filepath.Join(t.TempDir(), "x.tar")
		require.NoError(t, os.WriteFile(name, b, 0o600))
		return name
	}
	text := "kind: Plan\n"
	for name, c := range map[string]struct{ file, want string }{
		"empty":     {written(nil), "is no bundle: it has no index.json"},
		"no tar":    {written(bytes.Repeat([]byte("kind: Plan\n"), 100)), "is no bundle"},
		"truncated": {written(whole[:len(whole)/2]), "is not whole"},
		"changed": {rewrite(t, file, func(_ string, b []byte) []byte {
			return bytes.Replace(b, []byte(text), []byte("kind: Plot\n"), 1)
		}), "was changed"},
		"a part is missing": {rewrite(t, file, func(_ string, b []byte) []byte {
			if string(b) == text {
				return nil
			}
			return b
		}), "is not whole: it lacks sha256:"},
		"foreign layout": {rewrite(t, file, func(name string, b []byte) []byte {
			if name == ocispec.ImageIndexFile {
				return []byte(`{"schemaVersion":2,"manifests":[]}`)
			}
			return b
		}), "is an OCI layout, but no bundle of kplan"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := bundle.OpenFile(t.Context(), c.file)
			if err == nil {
				err = b.Unpack(t.Context(), t.TempDir())
			}
			var invalid *bundle.InvalidError
			require.ErrorAs(t, err, &invalid)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// No path of a bundle leads out of the folder that it is unpacked into.
func TestPathsStayInside(t *testing.T) {
	for _, path := range []string{"../evil.yaml", "/etc/evil.yaml", "a/../../evil.yaml", "a/./b", `..\evil.yaml`, ""} {
		c := sample()
		c.Files[2].Path = path
		_, err := bundle.Make(t.Context(), newLayout(t), c)
		require.ErrorContains(t, err, "leads out of the bundle", path)

		// Somebody makes one all the same, digests and all.
		from, root := forged(t, path)
		b, err := bundle.Open(t.Context(), from, root)
		require.ErrorContains(t, err, "leads out of the bundle", path)
		require.Nil(t, b)
	}
}

func newLayout(t *testing.T) *bundle.Layout {
	t.Helper()
	layout, err := bundle.NewLayout(t.TempDir())
	require.NoError(t, err)
	return layout
}

// forged is a bundle whose contents name a file by a path.
func forged(t *testing.T, path string) (content.ReadOnlyStorage, ocispec.Descriptor) {
	t.Helper()
	layout := newLayout(t)
	push := func(mediaType string, v any) ocispec.Descriptor {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		desc := content.NewDescriptorFromBytes(mediaType, text)
		require.NoError(t, layout.Push(t.Context(), desc, bytes.NewReader(text)))
		return desc
	}
	config := push("application/vnd.kplan.bundle.contents.v1+json", bundle.Contents{Plan: path, Files: []bundle.File{{Path: path}}})
	own := push(ocispec.MediaTypeImageManifest, ocispec.Manifest{ArtifactType: bundle.ArtifactType, Config: config})
	own.ArtifactType = bundle.ArtifactType
	return layout, push(ocispec.MediaTypeImageIndex, ocispec.Index{ArtifactType: bundle.ArtifactType, Manifests: []ocispec.Descriptor{own}})
}

// A host needs no dot where an address says that it is one.
func TestParseAddress(t *testing.T) {
	const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for address, want := range map[string][2]string{
		"oci://harbor/plans/eso:1.0":              {"harbor/plans/eso", "1.0"},
		"oci://harbor:5000/eso":                   {"harbor:5000/eso", "latest"},
		"oci://ghcr.io/org/eso:1.0@" + digest:     {"ghcr.io/org/eso", digest},
		"registry.example.com/plans/eso:20261122": {"registry.example.com/plans/eso", "20261122"},
	} {
		repository, reference, err := bundle.ParseAddress(address)
		require.NoError(t, err, address)
		require.Equal(t, want, [2]string{repository, reference}, address)
	}
	for _, address := range []string{"", "oci://", "oci://harbor", "oci:///x", "oci://harbor/", "oci://Harbor/x", "oci://h/a b"} {
		_, _, err := bundle.ParseAddress(address)
		require.Error(t, err, address)
	}
}

func TestParseImage(t *testing.T) {
	digest := "sha256:" + "aa"
	for name, want := range map[string][2]string{
		"nginx":                             {"docker.io/library/nginx", "latest"},
		"nginx:1.27":                        {"docker.io/library/nginx", "1.27"},
		"grafana/grafana:11":                {"docker.io/grafana/grafana", "11"},
		"index.docker.io/grafana/grafana":   {"docker.io/grafana/grafana", "latest"},
		"localhost/app":                     {"localhost/app", "latest"},
		"127.0.0.1:5000/a/b:v1":             {"127.0.0.1:5000/a/b", "v1"},
		"ghcr.io/org/app:1.0@" + digest:     {"ghcr.io/org/app", digest},
		"registry.k8s.io/pause@" + digest:   {"registry.k8s.io/pause", digest},
		"registry.internal:8443/team/app:2": {"registry.internal:8443/team/app", "2"},
	} {
		repository, reference, err := bundle.ParseImage(name)
		require.NoError(t, err, name)
		require.Equal(t, want, [2]string{repository, reference}, name)
	}
	for _, name := range []string{"", ":1", "Nginx", "{{ .Values.image }}", "a b"} {
		_, _, err := bundle.ParseImage(name)
		require.Error(t, err, name)
	}
}
