package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func none(string) (string, bool) { return "", false }

// server runs the webhook listener of an operator with these flags and a
// certificate for 127.0.0.1's stand-in name, and returns a client that trusts it.
func server(t *testing.T, args ...string) (*operator, *http.Client, string) {
	t.Helper()
	cfg, err := parseConfig(args, none)
	require.NoError(t, err)
	o := newOperator(cfg, nil, slog.New(slog.DiscardHandler))
	p, err := newPair(serviceNames("hook", "ns"), "")
	require.NoError(t, err)
	require.NoError(t, o.certs.set(p))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	o.fault.begin()
	done := make(chan error, 1)
	go func() { done <- o.serve(t.Context(), o.secure(l), o.webhookHandler()) }()
	t.Cleanup(func() { require.NoError(t, <-done) }) // t.Context ends before the clean-up

	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(p.ca))
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: roots, ServerName: "hook.ns.svc"},
	}}
	return o, client, "https://" + l.Addr().String()
}

const review = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u1",
"kind":{"group":"lab.kplan.dev","version":"v1","kind":"Gadget"},"resource":{"group":"lab.kplan.dev","version":"v1","resource":"gadgets"},
"operation":"CREATE","dryRun":true,"object":{"kind":"Gadget","spec":{}}}}`

func TestAnswers(t *testing.T) {
	tests := []struct {
		answer  string
		status  int    // of the answer
		body    string // part of it
		failure string // part of the client's error instead
	}{
		{answer: "ok", status: 200, body: `"allowed":true`},
		{answer: "deny", status: 200, body: "told to deny everything"},
		{answer: "404", status: 404, body: "told to answer 404"},
		{answer: "500", status: 500, body: "told to answer 500"},
		{answer: "badjson", status: 200, body: `"this is no review"`},
		{answer: "close", failure: "EOF"},
		{answer: "plainhttp", failure: "server gave HTTP response to HTTPS client"},
	}
	for _, tt := range tests {
		t.Run(tt.answer, func(t *testing.T) {
			o, client, url := server(t, "--answer", tt.answer, "--answer-for", "1m")
			status, body, err := post(t, client, url+"/validate-x")
			if tt.failure != "" {
				require.ErrorContains(t, err, tt.failure)
			} else {
				require.NoError(t, err)
				require.Equal(t, tt.status, status)
				require.Contains(t, body, tt.body)
			}

			o.fault.mu.Lock()
			o.fault.start = o.fault.start.Add(-2 * time.Minute)
			o.fault.mu.Unlock()
			status, body, err = post(t, client, url+"/validate-x")
			require.NoError(t, err, "the fault heals after --answer-for")
			require.Equal(t, 200, status)
			require.Contains(t, body, `"allowed":true`)
		})
	}
}

func TestAnswerHang(t *testing.T) {
	_, client, url := server(t, "--answer=hang")
	client.Timeout = 50 * time.Millisecond
	_, _, err := post(t, client, url+"/validate")
	require.ErrorContains(t, err, "Client.Timeout exceeded")
}

func TestUnknownPathIsNotFound(t *testing.T) {
	_, client, url := server(t)
	status, _, err := post(t, client, url+"/other")
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, status)
}

func TestMetricsCountCalls(t *testing.T) {
	o, client, url := server(t)
	for range 3 {
		_, _, err := post(t, client, url+"/validate-x")
		require.NoError(t, err)
	}
	var text bytes.Buffer
	o.writeMetrics(&text)
	require.Contains(t, text.String(),
		`lab_webhook_calls_total{path="/validate-x",resource="gadgets.lab.kplan.dev",operation="CREATE",dry_run="true",answer="allow"} 3`)
}

func post(t *testing.T, client *http.Client, url string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(review))
	require.NoError(t, err)
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// Until it has a certificate, a listener that was opened early fails the
// handshake as the API server reports it.
func TestListenEarly(t *testing.T) {
	o, client, url := server(t, "--listen-early")
	o.certs.served.Store(nil)
	_, _, err := post(t, client, url+"/validate")
	require.ErrorContains(t, err, "remote error: tls: internal error")
}

func TestReadiness(t *testing.T) {
	free := func() string { // a port that nobody listens on
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		return l.Addr().String()
	}
	_, _, url := server(t)
	listening := strings.TrimPrefix(url, "https://")
	tests := []struct {
		name, address, lying string
		want                 int
	}{
		{"honest, not listening", free(), "false", http.StatusServiceUnavailable},
		{"honest, listening", listening, "false", http.StatusOK},
		{"lying, not listening", free(), "true", http.StatusOK},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := parseConfig([]string{"--listen", tt.address, "--lying-health=" + tt.lying}, none)
			require.NoError(t, err)
			w := httptest.NewRecorder()
			newOperator(cfg, nil, slog.New(slog.DiscardHandler)).healthHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
			require.Equal(t, tt.want, w.Code, w.Body)
		})
	}
}

func TestCrash(t *testing.T) {
	dir := t.TempDir()
	require.EqualError(t, crash(dir, 2, 0), "crash 1 of 2, as asked by --crash")
	require.EqualError(t, crash(dir, 2, 0), "crash 2 of 2, as asked by --crash")
	require.NoError(t, crash(dir, 2, 0))
	require.NoError(t, crash(t.TempDir(), 0, 0))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "starts"), []byte("x"), 0o600))
	require.ErrorContains(t, crash(dir, 2, 0), "starts")
}

func TestConfig(t *testing.T) {
	env := map[string]string{"LAB_LISTEN_DELAY": "8s", "LAB_RUN": "webhook, controller", "LAB_MANAGE": "gadgets.v1.lab.kplan.dev"}
	lookup := func(k string) (string, bool) { v, ok := env[k]; return v, ok }

	c, err := parseConfig(nil, lookup)
	require.NoError(t, err)
	require.Equal(t, 8*time.Second, c.ListenDelay)
	require.Equal(t, list{"webhook", "controller"}, c.Run)

	c, err = parseConfig([]string{"--listen-delay=1s"}, lookup)
	require.NoError(t, err)
	require.Equal(t, time.Second, c.ListenDelay, "flags win over the environment")

	for _, bad := range []string{
		"--run=nothing", "--cert=magic", "--cert=self", "--cert-fault=odd", "--answer=200", "--manage=gadgets",
		"--manage=gadgets.v1.lab.kplan.dev:odd", "--service=x:y", "--run=certs", "--cert=none", "extra",
	} {
		_, err := parseConfig([]string{bad}, none)
		require.Error(t, err, bad)
	}
	env["LAB_CRASH"] = "often"
	_, err = parseConfig(nil, lookup)
	require.ErrorContains(t, err, "LAB_CRASH")
}

func TestNewPair(t *testing.T) {
	for fault, want := range map[string]string{
		"":          "",
		"expired":   "certificate has expired or is not yet valid",
		"early":     "certificate has expired or is not yet valid",
		"wrong-san": "certificate is valid for other.ns.svc, not hook.ns.svc",
	} {
		p, err := newPair(serviceNames("hook", "ns"), fault)
		require.NoError(t, err)
		c, err := tls.X509KeyPair(p.cert, p.key)
		require.NoError(t, err)
		roots := x509.NewCertPool()
		require.True(t, roots.AppendCertsFromPEM(p.ca))
		_, err = c.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "hook.ns.svc"})
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}

func TestConvert(t *testing.T) {
	ask := func(t *testing.T, version, object string) map[string]any {
		t.Helper()
		body := fmt.Sprintf(`{"request":{"uid":"u","desiredAPIVersion":%q,"objects":[%s]}}`, version, object)
		_, reply, err := convertReview([]byte(body))
		require.NoError(t, err)
		text, err := json.Marshal(reply)
		require.NoError(t, err)
		var out map[string]any
		require.NoError(t, json.Unmarshal(text, &out))
		return out["response"].(map[string]any)
	}
	const v1 = `{"apiVersion":"lab.kplan.dev/v1","kind":"Gizmo","metadata":{"name":"w"},"spec":{"height":4,"tier":"x","width":3}}`
	const alpha = `{"apiVersion":"lab.kplan.dev/v1alpha1","kind":"Gizmo","metadata":{"name":"w"},"spec":{"size":"3x4","tier":"x"}}`
	for _, tt := range []struct{ to, from, want string }{
		{"lab.kplan.dev/v1alpha1", v1, alpha},
		{"lab.kplan.dev/v1", alpha, v1},
		{"lab.kplan.dev/v1", v1, v1},
		{
			"external-secrets.io/v1beta1", `{"apiVersion":"external-secrets.io/v1alpha1","kind":"SecretStore","spec":{"size":"3x4"}}`,
			`{"apiVersion":"external-secrets.io/v1beta1","kind":"SecretStore","spec":{"size":"3x4"}}`,
		},
	} {
		resp := ask(t, tt.to, tt.from)
		require.Equal(t, "u", resp["uid"])
		text, err := json.Marshal(resp["convertedObjects"].([]any)[0])
		require.NoError(t, err)
		require.JSONEq(t, tt.want, string(text))
	}
	failed := ask(t, "lab.kplan.dev/v1", strings.ReplaceAll(alpha, "3x4", "big"))
	require.Equal(t, "Failure", failed["result"].(map[string]any)["status"])
}
