package labtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"
)

// Archive packs files as charts and artifacts are packed: a tar archive with gzip, in
// which they are in a folder.
func Archive(t testing.TB, folder string, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		require.NoError(t, archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(folder, name), Mode: 0o644, Size: int64(len(files[name]))}))
		_, err := archive.Write([]byte(files[name]))
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	require.NoError(t, zip.Close())
	return out.Bytes()
}

// Layer is a layer of what is pushed.
type Layer struct {
	MediaType string
	Content   []byte
}

// Push puts an artifact into a registry at HOST/PATH:TAG, over what is there, and
// returns its manifest's descriptor. The registry speaks plain HTTP.
func Push(t testing.TB, address string, config Layer, layers ...Layer) ocispec.Descriptor {
	t.Helper()
	at := strings.LastIndex(address, ":")
	repository, err := remote.NewRepository(address[:at])
	require.NoError(t, err)
	repository.PlainHTTP = true
	blob := func(l Layer) ocispec.Descriptor {
		desc := content.NewDescriptorFromBytes(l.MediaType, l.Content)
		require.NoError(t, repository.Blobs().Push(t.Context(), desc, bytes.NewReader(l.Content)))
		return desc
	}
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: blob(config)}
	for _, l := range layers {
		m.Layers = append(m.Layers, blob(l))
	}
	text, err := json.Marshal(m)
	require.NoError(t, err)
	desc := content.NewDescriptorFromBytes(m.MediaType, text)
	require.NoError(t, repository.PushReference(t.Context(), desc, bytes.NewReader(text), address[at+1:]))
	return desc
}

// PushChart puts a chart into a registry at HOST/PATH/NAME:VERSION, as helm push does.
func PushChart(t testing.TB, address string, files map[string]string) ocispec.Descriptor {
	t.Helper()
	name := path.Base(address[:strings.LastIndex(address, ":")])
	return Push(t, address,
		Layer{"application/vnd.cncf.helm.config.v1+json", []byte(`{}`)},
		Layer{"application/vnd.cncf.helm.chart.content.v1.tar+gzip", Archive(t, name, files)})
}
