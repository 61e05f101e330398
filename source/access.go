package source

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// access is how what is below an address is asked for: with whose login, and by which
// certificates. The zero access has none of it.
type access struct {
	plan.Repository
	// name is what the plan or Helm's repositories.yaml call it.
	name string
	// dir is the folder that its files are relative to.
	dir   string
	agent string
	plain http.RoundTripper

	once   sync.Once
	client *http.Client
	tokens auth.Cache
	err    error
}

// connect returns the client of the access. Its files are read when it is first asked.
func (a *access) connect() (*http.Client, error) {
	a.once.Do(func() {
		own, err := a.transport()
		a.err = err
		a.tokens = auth.NewCache()
		a.client = &http.Client{Transport: &patient{next: &route{access: a, own: own}}, CheckRedirect: a.redirect}
	})
	return a.client, a.err
}

// transport is the one for the hosts that the access is for.
func (a *access) transport() (http.RoundTripper, error) {
	if a.CAFile == "" && a.CertFile == "" && !a.InsecureSkipTLSVerify {
		return a.plain, nil
	}
	config := &tls.Config{InsecureSkipVerify: a.InsecureSkipTLSVerify, MinVersion: tls.VersionTLS12}
	if a.CAFile != "" {
		pem, err := os.ReadFile(a.file(a.CAFile))
		if err != nil {
			return nil, runner.Permanent(fmt.Errorf("reading the CA of the repository %s: %w", a.name, err))
		}
		if config.RootCAs, err = x509.SystemCertPool(); err != nil {
			config.RootCAs = x509.NewCertPool()
		}
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, runner.Permanent(fmt.Errorf("the file %s has no certificate", a.CAFile))
		}
	}
	if a.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(a.file(a.CertFile), a.file(a.KeyFile))
		if err != nil {
			return nil, runner.Permanent(fmt.Errorf("reading the client certificate of the repository %s: %w", a.name, err))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig, t.DisableCompression = config, true
	return t, nil
}

func (a *access) file(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(a.dir, name)
}

// close gives connections back.
func (a *access) close() {
	if a.client != nil {
		a.client.CloseIdleConnections()
	}
}

// isAt reports whether an address is on the host of the access. oci:// is by TLS,
// unless the repository says otherwise.
func (a *access) isAt(u *url.URL) bool {
	base, err := url.Parse(a.URL)
	if err != nil || a.URL == "" {
		return false
	}
	scheme := func(u *url.URL) string {
		switch {
		case u.Scheme != "oci":
			return u.Scheme
		case a.PlainHTTP:
			return "http"
		}
		return "https"
	}
	port := func(u *url.URL) string {
		return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[scheme(u)])
	}
	return scheme(u) == scheme(base) && strings.EqualFold(u.Hostname(), base.Hostname()) && port(u) == port(base)
}

// sendsTo reports whether the login may be sent to an address.
func (a *access) sendsTo(u *url.URL) bool {
	return a.isAt(u) || a.PassCredentials && (u.Scheme == "https" || strings.HasPrefix(a.URL, "http:"))
}

// sign puts the login on a request that may have it.
func (a *access) sign(req *http.Request) {
	switch {
	case !a.sendsTo(req.URL):
	case a.Token != "":
		req.Header.Set("Authorization", "Bearer "+a.Token)
	case a.Username != "" || a.Password != "":
		req.SetBasicAuth(a.Username, a.Password)
	}
}

// redirect takes the login off a request to another host, on which Go leaves it when
// only the port or the first part of the name differs.
func (a *access) redirect(req *http.Request, via []*http.Request) error {
	const most = 10 // as Go's own client
	if len(via) >= most {
		return fmt.Errorf("stopped after %d redirects", most)
	}
	if first := via[0].URL; (req.URL.Host != first.Host || req.URL.Scheme != first.Scheme) && !a.sendsTo(req.URL) {
		req.Header.Del("Authorization")
		req.Header.Del("Cookie")
	}
	return nil
}

// login is that of a registry; docker knows those that the access has none for.
func (a *access) login(docker auth.CredentialFunc) auth.CredentialFunc {
	own := auth.Credential{Username: a.Username, Password: a.Password, AccessToken: a.Token}
	base, err := url.Parse(a.URL)
	if err != nil || own == auth.EmptyCredential {
		return docker
	}
	return func(ctx context.Context, host string) (auth.Credential, error) {
		if host == base.Host || a.PassCredentials {
			return own, nil
		}
		return docker(ctx, host)
	}
}

// route sends to the hosts of an access by its own transport, and to all others, such
// as those that a server redirects to, by the plain one.
type route struct {
	access *access
	own    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r *route) RoundTrip(req *http.Request) (*http.Response, error) {
	if r.access.agent != "" && req.Header.Get("User-Agent") == "" {
		req = req.Clone(req.Context())
		req.Header.Set("User-Agent", r.access.agent)
	}
	if r.access.sendsTo(req.URL) {
		return r.own.RoundTrip(req)
	}
	return r.access.plain.RoundTrip(req)
}

// CloseIdleConnections is what http.Client.CloseIdleConnections looks for.
func (r *route) CloseIdleConnections() {
	if t, ok := r.own.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}
