package source_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
)

// noLogins leaves a test without the logins and repositories of whoever runs it.
func noLogins(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"HELM_REGISTRY_CONFIG", "HELM_REPOSITORY_CONFIG"} {
		t.Setenv(name, filepath.Join(dir, name))
	}
	t.Setenv("DOCKER_CONFIG", dir)
}

// helmRepositories writes a repositories.yaml as helm repo add does.
func helmRepositories(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "repositories.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	t.Setenv("HELM_REPOSITORY_CONFIG", file)
}

// repositoryHandler serves a chart x 1.0.0 at /charts, to those whom it allows.
func repositoryHandler(allows func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !allows(r):
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/charts/index.yaml":
			fmt.Fprint(w, "entries: {x: [{name: x, version: 1.0.0, urls: [x-1.0.0.tgz]}]}")
		case r.URL.Path == "/charts/x-1.0.0.tgz":
			fmt.Fprint(w, "chart")
		default:
			http.NotFound(w, r)
		}
	})
}

func basicAuth(user, password string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		u, p, _ := r.BasicAuth()
		return u == user && p == password
	}
}

// A repository's login comes from the plan or from helm repo add; the chart is named by
// the repository's name, its address, or both in one.
func TestRepositoryLogin(t *testing.T) {
	for name, c := range map[string]struct {
		allows func(*http.Request) bool
		plan   *plan.Repository
		helm   string
		chart  source.Chart
	}{
		"user of the plan, by name":    {allows: basicAuth("me", "pw"), plan: &plan.Repository{Username: "me", Password: "pw"}, chart: source.Chart{Repo: "r", Name: "x"}},
		"user of the plan, by address": {allows: basicAuth("me", "pw"), plan: &plan.Repository{Username: "me", Password: "pw"}, chart: source.Chart{Repo: "URL", Name: "x"}},
		"user of the plan, in one":     {allows: basicAuth("me", "pw"), plan: &plan.Repository{Username: "me", Password: "pw"}, chart: source.Chart{Name: "r/x"}},
		"token of the plan": {
			allows: func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer t" },
			plan:   &plan.Repository{Token: "t"}, chart: source.Chart{Repo: "r", Name: "x"},
		},
		"user of helm repo add, by name":    {allows: basicAuth("me", "pw"), helm: "username: me, password: pw", chart: source.Chart{Name: "r/x"}},
		"user of helm repo add, by address": {allows: basicAuth("me", "pw"), helm: "username: me, password: pw", chart: source.Chart{Repo: "URL", Name: "x"}},
		"user in the address":               {allows: basicAuth("me", "pw"), chart: source.Chart{Repo: "USERURL", Name: "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			noLogins(t)
			server := httptest.NewServer(repositoryHandler(c.allows))
			t.Cleanup(server.Close)
			o, base := source.Options{Repositories: map[string]plan.Repository{}}, server.URL+"/charts"
			if c.plan != nil {
				c.plan.URL = base
				o.Repositories["r"] = *c.plan
			}
			if c.helm != "" {
				helmRepositories(t, "repositories: [{name: r, url: "+base+", "+c.helm+"}]")
			}
			c.chart.Repo = strings.NewReplacer("USERURL", strings.Replace(base, "://", "://me:pw@", 1), "URL", base).Replace(c.chart.Repo)
			a, err := open(t, o).Chart(t.Context(), c.chart)
			require.NoError(t, err)
			require.Equal(t, "chart", string(a.Bytes))

			noLogins(t)
			_, err = open(t, source.Options{}).Chart(t.Context(), source.Chart{Name: "x", Repo: base})
			require.ErrorContains(t, err, "401")
		})
	}
}

// A name that is neither the plan's nor Helm's is told so.
func TestUnknownRepository(t *testing.T) {
	noLogins(t)
	_, err := open(t, source.Options{}).Chart(t.Context(), source.Chart{Name: "bitnami/nginx"})
	require.ErrorContains(t, err, `there is no repository "bitnami"`)
	require.Contains(t, runner.HintOf(err), "helm repo add bitnami")
	require.True(t, runner.IsPermanent(err))
}

// authority makes certificates and writes them to files.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.make(t, "ca", &x509.Certificate{IsCA: true, KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true})
	return a
}

// make writes NAME.pem and NAME.key.
func (a *authority) make(t *testing.T, name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c.SerialNumber, c.Subject, c.NotAfter = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}, time.Now().Add(time.Hour)
	parent, by := c, key
	if a.cert != nil {
		parent, by = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		require.NoError(t, os.WriteFile(filepath.Join(a.dir, file), pem.EncodeToMemory(block), 0o600))
	}
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return cert, key
}

// A server with a certificate of a private CA that wants one of its clients.
func TestClientCertificate(t *testing.T) {
	noLogins(t)
	ca := newAuthority(t)
	ca.make(t, "server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	ca.make(t, "client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	pair, err := tls.LoadX509KeyPair(filepath.Join(ca.dir, "server.pem"), filepath.Join(ca.dir, "server.key"))
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	server := httptest.NewUnstartedServer(repositoryHandler(func(*http.Request) bool { return true }))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	base := server.URL + "/charts"
	of := func(r plan.Repository) source.Options {
		r.URL = base
		return source.Options{Dir: ca.dir, Repositories: map[string]plan.Repository{"r": r}}
	}
	want := source.Chart{Name: "x", Repo: base}

	_, err = open(t, of(plan.Repository{CAFile: "ca.pem", CertFile: "client.pem", KeyFile: "client.key"})).Chart(t.Context(), want)
	require.NoError(t, err)
	_, err = open(t, of(plan.Repository{InsecureSkipTLSVerify: true, CertFile: "client.pem", KeyFile: "client.key"})).Chart(t.Context(), want)
	require.NoError(t, err)

	_, err = open(t, of(plan.Repository{CertFile: "client.pem", KeyFile: "client.key"})).Chart(t.Context(), want)
	require.ErrorContains(t, err, "unknown authority")
	require.Contains(t, runner.HintOf(err), "ca_file")
	require.NotErrorAs(t, err, new(*source.UnreachableError), "it does not pass by itself")

	_, err = open(t, of(plan.Repository{CAFile: "ca.pem"})).Chart(t.Context(), want)
	require.ErrorContains(t, err, "certificate required")
	require.Contains(t, runner.HintOf(err), "cert_file")

	helmRepositories(t, fmt.Sprintf("repositories: [{name: r, url: %q, caFile: %q, certFile: %q, keyFile: %q}]",
		base, filepath.Join(ca.dir, "ca.pem"), filepath.Join(ca.dir, "client.pem"), filepath.Join(ca.dir, "client.key")))
	_, err = open(t, source.Options{}).Chart(t.Context(), source.Chart{Name: "r/x"})
	require.NoError(t, err)
}

// A login goes to no other host, be it that the index names one or that the server
// redirects there, unless the repository passes it on. The hosts of the test differ by
// their ports, for which Go's own client would leave the login on.
func TestLoginStaysAtItsHost(t *testing.T) {
	for _, redirected := range []bool{false, true} {
		for _, pass := range []bool{false, true} {
			t.Run(fmt.Sprintf("redirected=%v pass=%v", redirected, pass), func(t *testing.T) {
				noLogins(t)
				seen := make(chan string, 1)
				other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					seen <- r.Header.Get("Authorization")
					fmt.Fprint(w, "chart")
				}))
				t.Cleanup(other.Close)
				address := "x.tgz"
				if !redirected {
					address = other.URL + "/x.tgz"
				}
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch {
					case !basicAuth("me", "pw")(r):
						w.WriteHeader(http.StatusUnauthorized)
					case r.URL.Path == "/index.yaml":
						fmt.Fprintf(w, "entries: {x: [{name: x, version: 1.0.0, urls: [%q]}]}", address)
					default:
						http.Redirect(w, r, other.URL+"/x.tgz", http.StatusFound)
					}
				}))
				t.Cleanup(server.Close)
				r := plan.Repository{URL: server.URL, Username: "me", Password: "pw", PassCredentials: pass}
				_, err := open(t, source.Options{Repositories: map[string]plan.Repository{"r": r}}).Chart(t.Context(), source.Chart{Name: "r/x"})
				require.NoError(t, err)
				require.Equal(t, pass, <-seen != "")
			})
		}
	}
}
