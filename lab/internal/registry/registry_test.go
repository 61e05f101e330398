package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
)

// A client pulls the lab's own chart by tag, as Helm does: manifest, config
// with Chart.yaml, and one layer that is the archive.
func TestPull(t *testing.T) {
	h, err := Handler("../../charts/race", "../../charts/guarded")
	require.NoError(t, err)
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")

	ref, err := name.ParseReference(host+"/charts/race:0.1.0", name.Insecure)
	require.NoError(t, err)
	img, err := remote.Image(ref, remote.WithContext(t.Context()))
	require.NoError(t, err)
	manifest, err := img.Manifest()
	require.NoError(t, err)
	require.EqualValues(t, configType, manifest.Config.MediaType)
	require.Len(t, manifest.Layers, 1)
	require.EqualValues(t, chartType, manifest.Layers[0].MediaType)

	config, err := img.RawConfigFile()
	require.NoError(t, err)
	var metadata map[string]any
	require.NoError(t, json.Unmarshal(config, &metadata))
	require.Equal(t, "race", metadata["name"])

	layer, err := img.LayerByDigest(manifest.Layers[0].Digest)
	require.NoError(t, err)
	r, err := layer.Compressed()
	require.NoError(t, err)
	archive, err := io.ReadAll(r)
	require.NoError(t, err)
	want, err := os.ReadFile("../../charts/race/values.yaml")
	require.NoError(t, err)
	require.Equal(t, string(want), files(t, archive)["race/values.yaml"])

	repo, err := name.NewRepository(host+"/charts/guarded", name.Insecure)
	require.NoError(t, err)
	tags, err := remote.List(repo, remote.WithContext(t.Context()))
	require.NoError(t, err)
	require.Equal(t, []string{"0.1.0"}, tags)
}

func files(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	require.NoError(t, err)
	tape := tar.NewReader(zip)
	out := map[string]string{}
	for {
		h, err := tape.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		body, err := io.ReadAll(tape)
		require.NoError(t, err)
		out[h.Name] = string(body)
	}
}

func TestReadOnly(t *testing.T) {
	h, err := Handler()
	require.NoError(t, err)
	for _, method := range []string{http.MethodPut, http.MethodPost, http.MethodPatch, http.MethodDelete} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/v2/charts/race/manifests/0.1.0", nil))
		require.Equal(t, http.StatusMethodNotAllowed, w.Code, method)
	}
}

func TestPack(t *testing.T) {
	folder := func(text string) string {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "Chart.yaml"), []byte(text), 0o600))
		return dir
	}
	c, err := pack(folder("name: a\nversion: 1.0.0+b\n"))
	require.NoError(t, err)
	require.Equal(t, "1.0.0_b", c.tag())
	again, err := pack(folder("name: a\nversion: 1.0.0+b\n"))
	require.NoError(t, err)
	require.Equal(t, c.archive, again.archive, "the same files make the same archive")

	for text, want := range map[string]string{
		"name: a\nversion: 1\n": "must be strings",
		"name: [\n":             "Chart.yaml",
	} {
		_, err := Handler(folder(text))
		require.ErrorContains(t, err, want)
	}
	_, err = Handler(t.TempDir())
	require.ErrorIs(t, err, os.ErrNotExist)
}
