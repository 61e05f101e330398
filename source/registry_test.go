package source_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
)

// registry answers as an OCI registry does, for what clients pull.
type registry struct {
	*httptest.Server
	mu        sync.Mutex
	manifests map[string][]byte // by tag and by digest
	blobs     map[string][]byte
	tags      []string
	requests  []string // METHOD PATH
	// allows reports whether a request may be answered; nil lets all.
	allows func(*http.Request) bool
	// challenge is what others are told.
	challenge string
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{manifests: map[string][]byte{}, blobs: map[string][]byte{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// host is HOST:PORT.
func (r *registry) host() string { return strings.TrimPrefix(r.URL, "http://") }

// push puts a layer under a tag of the repository x, and returns the manifest's digest.
func (r *registry) push(t *testing.T, tag, mediaType string, layer []byte) string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	descriptor := func(mediaType string, b []byte) map[string]any {
		r.blobs[digest(b)] = b
		return map[string]any{"mediaType": mediaType, "digest": digest(b), "size": len(b)}
	}
	m, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": descriptor("application/vnd.cncf.helm.config.v1+json", []byte("{}")), "layers": []any{descriptor(mediaType, layer)},
	})
	require.NoError(t, err)
	r.manifests[tag], r.manifests[digest(m)] = m, m
	r.tags = append(r.tags, tag)
	return digest(m)
}

const chartLayer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

func (r *registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.allows != nil && !r.allows(req) {
		w.Header().Set("WWW-Authenticate", r.challenge)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	r.requests = append(r.requests, req.Method+" "+req.URL.Path)
	name := req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]
	b, ok := r.manifests[name]
	switch {
	case strings.HasSuffix(req.URL.Path, "/tags/list"):
		_ = json.NewEncoder(w).Encode(map[string]any{"name": "x", "tags": r.tags})
		return
	case strings.Contains(req.URL.Path, "/blobs/"):
		b, ok = r.blobs[name]
	case ok:
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		w.Header().Set("Docker-Content-Digest", digest(b))
	}
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = w.Write(b)
}

// asked counts requests for paths that end so.
func (r *registry) asked(suffix string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, path := range r.requests {
		if strings.HasSuffix(path, suffix) {
			n++
		}
	}
	return n
}

// A version or a constraint finds its tag; a chart is pulled once and then known by its
// digest, also in later runs.
func TestRegistry(t *testing.T) {
	r := newRegistry(t)
	for _, v := range []string{"1.0.0", "1.1.0", "2.0.0-rc.1", "latest", "1.2.0_build"} {
		r.push(t, v, chartLayer, []byte("chart "+v))
	}
	cache := t.TempDir()
	name := "oci://" + r.host() + "/charts/x"
	for asked, want := range map[string]string{"1.0.0": "1.0.0", "~1.1": "1.1.0", "": "1.2.0_build", ">=2.0.0-0": "2.0.0-rc.1", "1.2.0+build": "1.2.0_build"} {
		a, err := open(t, source.Options{Cache: cache}).Chart(t.Context(), source.Chart{Name: name, Version: asked, PlainHTTP: true})
		require.NoError(t, err, asked)
		require.Equal(t, "chart "+want, string(a.Bytes), asked)
		require.Equal(t, digest(a.Bytes), a.Digest)
		require.Equal(t, digest(r.manifests[want]), a.Manifest)
		require.Equal(t, "x", a.Name)
	}
	require.Equal(t, 1, r.asked("/blobs/"+digest([]byte("chart 1.2.0_build"))), "the second time it is known by its digest")

	s := open(t, source.Options{Cache: cache})
	_, err := s.Chart(t.Context(), source.Chart{Name: name, Version: "3.0.0", PlainHTTP: true})
	require.ErrorContains(t, err, "there is no version 3.0.0")
	require.Contains(t, runner.HintOf(err), "there are: 2.0.0-rc.1, 1.2.0+build, 1.1.0, 1.0.0")
	require.True(t, runner.IsPermanent(err))

	_, err = open(t, source.Options{Cache: t.TempDir()}).Chart(t.Context(), source.Chart{Name: name, Version: "1.0.0"})
	require.ErrorContains(t, err, "server gave HTTP response to HTTPS client")
	require.Contains(t, runner.HintOf(err), "plain_http: true")

	a, err := s.Chart(t.Context(), source.Chart{Name: name + "@" + digest(r.manifests["1.0.0"]), PlainHTTP: true})
	require.NoError(t, err)
	require.Equal(t, "chart 1.0.0", string(a.Bytes))
}

// A server that is away is done without where a version and its content are known. A
// constraint could mean an older chart then.
func TestServerIsAway(t *testing.T) {
	cache := t.TempDir()
	r := newRegistry(t)
	r.push(t, "1.0.0", chartLayer, []byte("chart"))
	exact := source.Chart{Name: "oci://" + r.host() + "/charts/x", Version: "1.0.0", PlainHTTP: true}
	f := serve(t, map[string]string{"/x-1.0.0.tgz": "chart", "/index.yaml": "entries: {x: [{name: x, version: 1.0.0, urls: [x-1.0.0.tgz], digest: " + digest([]byte("chart"))[7:] + "}]}"})
	listed := source.Chart{Name: "x", Repo: f.URL, Version: "1.0.0"}
	for _, c := range []source.Chart{exact, listed} {
		_, err := open(t, source.Options{Cache: cache}).Chart(t.Context(), c)
		require.NoError(t, err)
	}
	r.Close()
	f.Close()
	for _, c := range []source.Chart{exact, listed} {
		var notes []string
		s := open(t, source.Options{Cache: cache, Report: func(p source.Progress) {
			if p.Note != "" {
				notes = append(notes, p.Note)
			}
		}})
		a, err := s.Chart(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, "chart", string(a.Bytes))
		require.Len(t, notes, 1)
		require.Contains(t, notes[0], "what an earlier run fetched is used")
		var heard []source.Progress
		_, err = s.Chart(source.WithProgress(t.Context(), func(p source.Progress) { heard = append(heard, p) }), c)
		require.NoError(t, err)
		require.Len(t, heard, 1, "who comes later is told too")
		require.Equal(t, notes[0], heard[0].Note)

		c.Version = "^1"
		_, err = s.Chart(t.Context(), c)
		var away *source.UnreachableError
		require.ErrorAs(t, err, &away)
	}
}

// A registry's login comes from the plan, Helm's registry config, Docker's config or a
// credential helper, in that order; a token is sent as it is.
func TestRegistryLogin(t *testing.T) {
	basic := func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	config := func(t *testing.T, host, user, password string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "config.json")
		text := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	for name, c := range map[string]struct {
		want string
		set  func(t *testing.T, host string) map[string]plan.Repository
	}{
		"plan": {basic("me", "pw"), func(_ *testing.T, host string) map[string]plan.Repository {
			return map[string]plan.Repository{"r": {URL: "oci://" + host + "/charts", Username: "me", Password: "pw", PlainHTTP: true}}
		}},
		"Helm's registry config": {basic("helm", "pw"), func(t *testing.T, host string) map[string]plan.Repository {
			t.Helper()
			t.Setenv("HELM_REGISTRY_CONFIG", config(t, host, "helm", "pw"))
			return nil
		}},
		"Docker's config": {basic("docker", "pw"), func(t *testing.T, host string) map[string]plan.Repository {
			t.Helper()
			t.Setenv("DOCKER_CONFIG", filepath.Dir(config(t, host, "docker", "pw")))
			return nil
		}},
		"a credential helper": {basic("helper", "pw"), func(t *testing.T, host string) map[string]plan.Repository {
			t.Helper()
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "docker-credential-test"), []byte("#!/bin/sh\necho '{\"Username\": \"helper\", \"Secret\": \"pw\"}'\n"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"credHelpers": {"`+host+`": "test"}}`), 0o600))
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			t.Setenv("DOCKER_CONFIG", dir)
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			noLogins(t)
			r := newRegistry(t)
			r.push(t, "1.0.0", chartLayer, []byte("chart"))
			r.challenge = `Basic realm="x"`
			r.allows = func(req *http.Request) bool { return req.Header.Get("Authorization") == c.want }
			repositories := c.set(t, r.host())
			want := source.Chart{Name: "oci://" + r.host() + "/charts/x", Version: "1.0.0", PlainHTTP: true}
			a, err := open(t, source.Options{Repositories: repositories}).Chart(t.Context(), want)
			require.NoError(t, err)
			require.Equal(t, "chart", string(a.Bytes))

			noLogins(t)
			_, err = open(t, source.Options{}).Chart(t.Context(), want)
			require.ErrorContains(t, err, "basic credential not found")
			require.Contains(t, runner.HintOf(err), "helm registry login")
		})
	}
}

// A registry that hands out tokens is given the login where it does that; a token of the
// plan is sent as it is.
func TestRegistryToken(t *testing.T) {
	noLogins(t)
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if user, password, _ := req.BasicAuth(); user != "me" || password != "pw" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"token": "handed-out"}`)
	}))
	t.Cleanup(tokens.Close)
	r := newRegistry(t)
	r.push(t, "1.0.0", chartLayer, []byte("chart"))
	r.challenge = fmt.Sprintf(`Bearer realm=%q,service="x",scope="repository:charts/x:pull"`, tokens.URL)
	r.allows = func(req *http.Request) bool {
		return strings.HasSuffix(req.Header.Get("Authorization"), "Bearer handed-out") || req.Header.Get("Authorization") == "Bearer of-the-plan"
	}
	for _, login := range []plan.Repository{{Username: "me", Password: "pw"}, {Token: "of-the-plan"}} {
		login.URL, login.PlainHTTP = "oci://"+r.host(), true
		_, err := open(t, source.Options{Repositories: map[string]plan.Repository{"r": login}}).Chart(t.Context(), source.Chart{Name: "charts/x", Repo: "r", Version: "1.0.0"})
		require.NoError(t, err)
	}
}

// An artifact is the layer that Flux pushes.
func TestArtifact(t *testing.T) {
	noLogins(t)
	r := newRegistry(t)
	manifest := r.push(t, "latest", "application/vnd.cncf.flux.content.v1.tar+gzip", []byte("files"))
	a, err := open(t, source.Options{}).Artifact(t.Context(), source.Artifact{Name: "oci://" + r.host() + "/manifests/x", PlainHTTP: true})
	require.NoError(t, err)
	require.Equal(t, "files", string(a.Bytes))
	require.Equal(t, manifest, a.Manifest)
	require.Equal(t, "latest", a.Version)

	r.push(t, "1.0.0", chartLayer, []byte("chart"))
	_, err = open(t, source.Options{}).Artifact(t.Context(), source.Artifact{Name: "oci://" + r.host() + "/charts/x:1.0.0", PlainHTTP: true})
	require.ErrorContains(t, err, "it is no artifact")
}
