package steps_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps"
)

// secretOf is what no source's login may leave in any event or error.
const secretOf = "s3cr3t-pass"

// noLogins leaves a test without the logins and repositories of whoever runs it.
func noLogins(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HELM_REGISTRY_CONFIG", filepath.Join(dir, "registry.json"))
	t.Setenv("HELM_REPOSITORY_CONFIG", filepath.Join(dir, "repositories.yaml"))
	t.Setenv("DOCKER_CONFIG", dir)
}

// guard lets those through whom it allows, and tells others how to log in.
type guard struct {
	challenge string
	allows    func(*http.Request) bool
}

var (
	basic = guard{`Basic realm="lab"`, func(r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		return user == "me" && password == secretOf
	}}
	bearer   = guard{`Bearer realm="http://lab.invalid"`, func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer "+secretOf }}
	everyone = guard{"", func(*http.Request) bool { return true }}
)

// guarded stands before a server of charts.
func guarded(t *testing.T, behind http.Handler, g guard) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(g.before(behind))
	t.Cleanup(server.Close)
	return server
}

func (g guard) before(behind http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.allows(r) {
			w.Header().Set("WWW-Authenticate", g.challenge)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		behind.ServeHTTP(w, r)
	})
}

// guardedByTLS is guarded by TLS with a certificate of its own, which clients have to show,
// too. It gives the fields of a repository that name the files.
func guardedByTLS(t *testing.T, behind http.Handler) (server *httptest.Server, files string) {
	t.Helper()
	var own *x509.Certificate
	server = httptest.NewUnstartedServer(guard{allows: func(r *http.Request) bool { return r.TLS.PeerCertificates[0].Equal(own) }}.before(behind))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	own = server.Certificate()
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	require.NoError(t, err)
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: own.Raw}, "key.pem": {Type: "PRIVATE KEY", Bytes: key}} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	return server, fmt.Sprintf("ca_file: %[1]s/cert.pem, cert_file: %[1]s/cert.pem, key_file: %[1]s/key.pem", dir)
}

// dockerConfig writes a config.json with the login of a host.
func dockerConfig(t *testing.T, host string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	text := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host, base64.StdEncoding.EncodeToString([]byte("me:"+secretOf)))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// signedRepository serves the chart of chartOf with its provenance file, and gives the
// keyring with the key that signed it.
func signedRepository(t *testing.T) (address, keyring string) {
	t.Helper()
	dir := indexed(t)
	key, err := openpgp.NewEntity("lab", "", "lab@example.com", nil)
	require.NoError(t, err)
	archive, err := os.ReadFile(filepath.Join(dir, "settings-0.1.0.tgz"))
	require.NoError(t, err)
	var signed, public bytes.Buffer
	w, err := clearsign.Encode(&signed, key.PrivateKey, nil)
	require.NoError(t, err)
	_, err = fmt.Fprintf(w, "name: settings\n\n...\nfiles:\n  settings-0.1.0.tgz: %s\n", fmt.Sprintf("sha256:%x", sha256.Sum256(archive)))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "settings-0.1.0.tgz.prov"), signed.Bytes(), 0o600))
	require.NoError(t, key.Serialize(&public))
	keyring = filepath.Join(t.TempDir(), "pubring.gpg")
	require.NoError(t, os.WriteFile(keyring, public.Bytes(), 0o600))
	return guarded(t, http.FileServer(http.Dir(dir)), everyone).URL, keyring
}

// A chart is installed from every kind of source, with every kind of login: registries
// are the lab's own, behind a server that wants a login.
func TestSources(t *testing.T) {
	lab := labtest.ControlPlane(t)
	registry := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: labtest.Registry(t)})
	repository := http.FileServer(http.Dir(indexed(t)))
	const release = "release: NS, namespace: NS, wait: none, values: {gadgets: 0, widgets: 0}"
	host := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	login := `username: me, password: "${{ vars.pass }}"`
	for name, of := range map[string]func(t *testing.T) (repositories, helm string){
		"a registry by user": func(t *testing.T) (string, string) {
			t.Helper()
			s := guarded(t, registry, basic)
			return "r: {url: oci://" + host(s) + "/charts, plain_http: true, " + login + "}", "chart: guarded, repo: r, " + release
		},
		"a registry by token": func(t *testing.T) (string, string) {
			t.Helper()
			s := guarded(t, registry, bearer)
			return "r: {url: oci://" + host(s) + `, plain_http: true, token: "${{ vars.pass }}"}`, "chart: 'oci://" + host(s) + "/charts/guarded', " + release
		},
		"a registry by helm registry login": func(t *testing.T) (string, string) {
			t.Helper()
			s := guarded(t, registry, basic)
			t.Setenv("HELM_REGISTRY_CONFIG", dockerConfig(t, host(s)))
			return "", "chart: 'oci://" + host(s) + "/charts/guarded', plain_http: true, " + release
		},
		"a registry by docker login": func(t *testing.T) (string, string) {
			t.Helper()
			s := guarded(t, registry, basic)
			t.Setenv("DOCKER_CONFIG", filepath.Dir(dockerConfig(t, host(s))))
			return "", "chart: 'oci://" + host(s) + "/charts/guarded', plain_http: true, " + release
		},
		"a registry by credential helper": func(t *testing.T) (string, string) {
			t.Helper()
			s, dir := guarded(t, registry, basic), t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "docker-credential-lab"), []byte("#!/bin/sh\necho '{\"Username\": \"me\", \"Secret\": \""+secretOf+"\"}'\n"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"credHelpers": {"`+host(s)+`": "lab"}}`), 0o600))
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			t.Setenv("DOCKER_CONFIG", dir)
			return "", "chart: 'oci://" + host(s) + "/charts/guarded', plain_http: true, " + release
		},
		"a registry by client certificate and private CA": func(t *testing.T) (string, string) {
			t.Helper()
			s, files := guardedByTLS(t, registry)
			return "r: {url: oci://" + host(s) + ", " + files + "}", "chart: charts/guarded, repo: r, " + release
		},
		"a repository by user": func(t *testing.T) (string, string) {
			t.Helper()
			return "r: {url: '" + guarded(t, repository, basic).URL + "', " + login + "}", "chart: r/settings, release: NS, namespace: NS"
		},
		"a repository by token": func(t *testing.T) (string, string) {
			t.Helper()
			s := guarded(t, repository, bearer)
			return "r: {url: '" + s.URL + `', token: "${{ vars.pass }}"}`, "chart: settings, repo: '" + s.URL + "', release: NS, namespace: NS"
		},
		"a repository by helm repo add": func(t *testing.T) (string, string) {
			t.Helper()
			file := filepath.Join(t.TempDir(), "repositories.yaml")
			require.NoError(t, os.WriteFile(file, []byte("repositories: [{name: of-helm, url: '"+guarded(t, repository, basic).URL+"', username: me, password: "+secretOf+"}]"), 0o600))
			t.Setenv("HELM_REPOSITORY_CONFIG", file)
			return "", "chart: of-helm/settings, version: ~0.1, release: NS, namespace: NS"
		},
		"a repository by client certificate and private CA": func(t *testing.T) (string, string) {
			t.Helper()
			s, files := guardedByTLS(t, repository)
			return "r: {url: '" + s.URL + "', " + files + "}", "chart: settings, repo: r, release: NS, namespace: NS"
		},
		"a signed chart of a repository": func(t *testing.T) (string, string) {
			t.Helper()
			address, keyring := signedRepository(t)
			return "", "chart: settings, repo: '" + address + "', release: NS, namespace: NS, verify: {keyring: " + keyring + "}"
		},
		"a folder with the chart beside it": func(t *testing.T) (string, string) {
			t.Helper()
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "Chart.yaml"), []byte("{apiVersion: v2, name: top, version: 0.1.0, dependencies: [{name: settings, version: 0.1.0, repository: 'file://"+chartOf(t, nil)+"'}]}"), 0o600))
			return "", "chart: " + dir + ", release: NS, namespace: NS"
		},
	} {
		t.Run(name, func(t *testing.T) {
			noLogins(t)
			ns := lab.Namespace(t)
			repositories, helm := of(t)
			text := "vars: {pass: {env: PASS, sensitive: true}}\nrepositories: {" + repositories + "}\nsteps: [{name: s, helm: {" + strings.ReplaceAll(helm, "NS", ns) + "}}]\n"
			out := runFrom(t, lab, ns, text)
			require.NoError(t, out.err)
			last, err := helmOf(t, lab, ns).Releases.Last(ns)
			require.NoError(t, err)
			require.Equal(t, "deployed", last.Info.Status.String())
			for _, e := range out.events {
				require.NotContains(t, e.Message+e.Error+e.Hint, secretOf)
			}
		})
	}
}

// runFrom runs a plan with a cache of its own.
func runFrom(t *testing.T, lab *labtest.Lab, ns, text string) *run {
	t.Helper()
	in := load.Options{Env: func(name string) (string, bool) { return secretOf, name == "PASS" }}
	p := loadPlans(t, in, map[string]string{"plan.yaml": text})
	from := source.New(source.Options{Cache: t.TempDir(), Repositories: p.Repositories, Dir: p.Dir})
	t.Cleanup(from.Close)
	return runSteps(t, lab, ns, "", steps.Config{Plan: p, Sources: from})
}
