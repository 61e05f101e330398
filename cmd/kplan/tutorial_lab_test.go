//go:build unix

package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// Every command of the tutorial is copied out of its pages and run, in one folder and in
// their order, on a cluster of its own: the operator's names are of the whole cluster.
// What a page shows of their output must be in it. The chart that the pages take from
// the internet is the lab's stand-in, which a proxy serves under the same address.
func TestTutorial(t *testing.T) {
	t.Parallel()
	lab := labtest.OwnNode(t, "test-tutorial")
	lab.Operator(t)
	shell := newLearner(t, lab)
	dir := filepath.Join("..", "..", "docs", "tutorial")
	for _, f := range slices.Concat(fences(t, filepath.Join(dir, "first-plan.md")), fences(t, filepath.Join(dir, "own-plan.md"))) {
		switch {
		case unchecked.MatchString(f.info):
		case fileMark.MatchString(f.info):
			name := fileMark.FindStringSubmatch(f.info)[1]
			require.NoError(t, os.WriteFile(filepath.Join(shell.dir, "first-plan", name), []byte(f.text), 0o600))
		case f.lang == "sh":
			out, err := shell.run(f.text)
			require.NoError(t, err, "%s:%d: %s\n%s", f.file, f.line, f.text, out)
		case f.lang == "console":
			for _, p := range f.session() {
				out, err := shell.run(p.command)
				t.Logf("$ %s\n%s", p.command, out)
				fails := strings.Contains(strings.ToLower(strings.Join(p.output, "\n")), "error: ")
				require.Equal(t, fails, err != nil, "%s:%d: %s: %v\n%s", f.file, p.line, p.command, err, out)
				shows(t, f, p, out)
			}
		}
	}
}

// shows wants the lines that the page shows, in their order. A command without any writes
// nothing.
func shows(t *testing.T, f fence, p prompted, out string) {
	t.Helper()
	if len(p.output) == 0 {
		require.Empty(t, strings.TrimSpace(out), "%s:%d: %s", f.file, p.line, p.command)
	}
	rest := strings.Split(out, "\n")
	for _, line := range p.output {
		want := stable(line)
		for len(rest) > 0 && !want.MatchString(rest[0]) {
			rest = rest[1:]
		}
		require.NotEmpty(t, rest, "%s:%d: %s does not write\n%s\n(%s)\nbut\n%s", f.file, p.line, p.command, line, want, out)
	}
}

// What is different in each run: times, durations, addresses, digests, names of pods and the
// width of columns. An ellipsis stands for anything.
var changing = []struct{ part, is *regexp.Regexp }{
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), regexp.MustCompile(`\d\d:\d\d:\d\d`)},
	{regexp.MustCompile(`\b(\d+m)?\d+(\\\.\d+)?(ms|s)\b`), regexp.MustCompile(`(\d+m)?\d+(\.\d+)?(ms|s)`)},
	{regexp.MustCompile(`\b\d+\\\.\d+\\\.\d+\\\.\d+:\d+`), regexp.MustCompile(`\d+\.\d+\.\d+\.\d+:\d+`)},
	{regexp.MustCompile(`-[a-z0-9]{8,10}-[a-z0-9]{5}\b`), regexp.MustCompile(`-[a-z0-9]{8,10}-[a-z0-9]{5}`)},
	{regexp.MustCompile(`  +`), regexp.MustCompile(`  +`)},
	{regexp.MustCompile(`…`), regexp.MustCompile(`.*`)},
}

// stable is a line but for what is different in each run.
func stable(line string) *regexp.Regexp {
	text := regexp.QuoteMeta(strings.TrimRight(line, " "))
	for _, c := range changing {
		text = c.part.ReplaceAllLiteralString(text, c.is.String())
	}
	return regexp.MustCompile("^" + text + " *$")
}

// A learner is a shell of somebody who has kplan, Helm and kubectl, and follows the page.
type learner struct {
	t   *testing.T
	dir string // where the shell begins
	in  string // where it is
	env []string
}

func newLearner(t *testing.T, lab *labtest.Lab) *learner {
	t.Helper()
	home, tools := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(labtest.Helm(t), filepath.Join(tools, "helm")))
	require.NoError(t, os.Symlink(labtest.Kubectl(t), filepath.Join(tools, "kubectl")))
	proxy, authority := publicCharts(t)
	env := []string{
		"PATH=" + tools + ":" + os.Getenv("PATH"), "HOME=" + home, "KUBECONFIG=" + lab.Kubeconfig,
		"HTTPS_PROXY=" + proxy, "SSL_CERT_FILE=" + authority,
	}
	return &learner{t, home, home, env}
}

// run runs lines of shell where the last ones have led to, and gives what they write.
func (l *learner) run(script string) (string, error) {
	l.t.Helper()
	where := filepath.Join(l.t.TempDir(), "pwd")
	cmd := exec.CommandContext(l.t.Context(), "sh", "-ec", script+"\npwd > "+where)
	cmd.Dir, cmd.Env = l.in, l.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if b, missing := os.ReadFile(where); missing == nil {
		l.in = strings.TrimSpace(string(b))
	}
	return out.String(), err
}

// publicCharts is a proxy that leads to one host alone, charts.external-secrets.io, which
// has the lab's stand-in for its chart, and the file of the authority that it is signed by.
// The stand-in's webhook is made to listen late enough for a busy machine.
func publicCharts(t *testing.T) (proxy, authority string) {
	t.Helper()
	const host = "charts.external-secrets.io"
	chart := labtest.Archive(t, "external-secrets", lateChart(t))
	site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/index.yaml":
			_, _ = io.WriteString(w, "apiVersion: v1\nentries: {external-secrets: [{apiVersion: v2, name: external-secrets, version: 0.11.0, urls: [external-secrets-0.11.0.tgz]}]}\n")
		case "/external-secrets-0.11.0.tgz":
			_, _ = w.Write(chart)
		default:
			http.NotFound(w, r)
		}
	}))
	certificate, authority := signedBySelf(t, host)
	site.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	site.StartTLS()
	t.Cleanup(site.Close)
	way := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != host+":443" {
			http.Error(w, "the tutorial names no such host", http.StatusForbidden)
			return
		}
		join(w, site.Listener.Addr().String())
	}))
	t.Cleanup(way.Close)
	return way.URL, authority
}

// join connects a client that asked a proxy for it with an address, until both have ended.
func join(w http.ResponseWriter, address string) {
	there, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer there.Close()
	here, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer here.Close()
	_, _ = io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n")
	done := make(chan struct{})
	go func() { // ends when the client has, or join closes its connection
		defer close(done)
		_, _ = io.Copy(there, buffered)
		_ = there.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(here, there)
	_ = here.Close()
	<-done
}

// lateChart are the files of the stand-in for External Secrets.
func lateChart(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	dir := filepath.Join(labtest.Charts(), "external-secrets")
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path) // follows links
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = strings.Replace(string(b), "listenDelay: 2s", "listenDelay: 8s", 1)
		return err
	}))
	require.Contains(t, files["values.yaml"], "listenDelay: 8s")
	return files
}

// signedBySelf is a certificate for a host, and a file with it.
func signedBySelf(t *testing.T, host string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, &x509.Certificate{Subject: pkix.Name{CommonName: host}}, &key.PublicKey, key)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "authority.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}
