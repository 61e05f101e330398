package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// manifestServer serves /map.yaml, a ConfigMap, and as a registry one artifact, under any
// name and tag, as flux push artifact makes it: an overlay with a base.
func manifestServer(t *testing.T) http.Handler {
	t.Helper()
	var layer bytes.Buffer
	z := gzip.NewWriter(&layer)
	w := tar.NewWriter(z)
	for _, f := range [][2]string{
		{"base/kustomization.yaml", "resources: [map.yaml]\n"},
		{"base/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: from-artifact}\n"},
		{"prod/kustomization.yaml", "resources: [../base]\nnamePrefix: prod-\n"},
	} {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o600, Size: int64(len(f[1])), Typeflag: tar.TypeReg}))
		_, err := w.Write([]byte(f[1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	sum := func(b []byte) string { s := sha256.Sum256(b); return "sha256:" + hex.EncodeToString(s[:]) }
	blobs := map[string][]byte{}
	put := func(mediaType string, b []byte) map[string]any {
		blobs[sum(b)] = b
		return map[string]any{"mediaType": mediaType, "digest": sum(b), "size": len(b)}
	}
	const media = "application/vnd.oci.image.manifest.v1+json"
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": media,
		"config": put("application/vnd.cncf.flux.config.v1+json", []byte("{}")),
		"layers": []any{put("application/vnd.cncf.flux.content.v1.tar+gzip", layer.Bytes())},
	})
	require.NoError(t, err)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b := blobs[path.Base(req.URL.Path)]
		switch {
		case strings.Contains(req.URL.Path, "/manifests/"):
			w.Header().Set("Content-Type", media)
			b = manifest
		case req.URL.Path == "/map.yaml":
			b = []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: from-web}\n")
		case b == nil:
			http.NotFound(w, req)
			return
		}
		w.Header().Set("Docker-Content-Digest", sum(b))
		http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(b))
	})
}
