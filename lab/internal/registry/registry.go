// Package registry serves chart folders as an OCI registry, so that the lab can
// install oci:// charts without a network. Clients can only read the lab's charts;
// they may push what they like elsewhere, also over what is there.
//
// It keeps everything in memory, speaks plain HTTP as the caller's server does,
// and knows no users. It does not serve images: the lab loads those into
// containerd.
package registry

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"
)

// Media types of Helm's charts (helm/helm: pkg/registry/constants.go).
const (
	configType   = "application/vnd.cncf.helm.config.v1+json"
	chartType    = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
)

// Prefix is the path under which charts are served: oci://HOST/charts/NAME.
const Prefix = "charts/"

// Handler packages the chart folders and serves each at charts/NAME:VERSION.
// The folders are read once, now.
func Handler(chartDirs ...string) (http.Handler, error) {
	h := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	for _, dir := range chartDirs {
		c, err := pack(dir)
		if err != nil {
			return nil, fmt.Errorf("chart %s: %w", dir, err)
		}
		if err := push(h, c); err != nil {
			return nil, fmt.Errorf("chart %s: %w", dir, err)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/"+Prefix) && r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusMethodNotAllowed)
			fmt.Fprintln(w, `{"errors":[{"code":"UNSUPPORTED","message":"the lab's own charts are read-only"}]}`)
			return
		}
		h.ServeHTTP(w, r)
	}), nil
}

type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int    `json:"size"`
}

// push puts a chart into the registry by the registry's own API.
func push(h http.Handler, c chart) error {
	config, err := json.Marshal(c.metadata)
	if err != nil {
		return err
	}
	base := "/v2/" + Prefix + c.name
	blob := func(mediaType string, body []byte) (descriptor, error) {
		d := descriptor{MediaType: mediaType, Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(body)), Size: len(body)}
		target := base + "/blobs/uploads/?" + url.Values{"digest": {d.Digest}}.Encode()
		return d, send(h, http.MethodPost, target, "application/octet-stream", body)
	}
	configBlob, err := blob(configType, config)
	if err != nil {
		return err
	}
	chartBlob, err := blob(chartType, c.archive)
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2,
		"mediaType":     manifestType,
		"config":        configBlob,
		"layers":        []descriptor{chartBlob},
		"annotations": map[string]string{
			"org.opencontainers.image.title":   c.name,
			"org.opencontainers.image.version": c.version,
		},
	})
	if err != nil {
		return err
	}
	return send(h, http.MethodPut, base+"/manifests/"+c.tag(), manifestType, manifest)
}

func send(h http.Handler, method, target, mediaType string, body []byte) error {
	req, err := http.NewRequest(method, target, bytes.NewReader(body)) // answered in this process
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", mediaType)
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, req)
	if answer.Code != http.StatusCreated {
		return fmt.Errorf("%s %s: status %d: %s", method, target, answer.Code, answer.Body)
	}
	return nil
}
