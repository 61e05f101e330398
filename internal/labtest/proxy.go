package labtest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// Behind is the lab behind a proxy, for which each request goes to handle; next
// sends it on with the administrator's access. Requests that are under way when the
// test ends have their context ended.
func (l *Lab) Behind(t testing.TB, handle func(w http.ResponseWriter, r *http.Request, next http.Handler)) *Lab {
	t.Helper()
	config := l.Config(t)
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	server, _, err := rest.DefaultServerUrlFor(config)
	require.NoError(t, err)
	next := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: server.Scheme, Host: server.Host}) },
		Transport:     transport,
		FlushInterval: -1,                                                 // events of watches are for now
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) {}, // the client has gone
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(w, r, next) }))
	t.Cleanup(func() {
		proxy.CloseClientConnections()
		proxy.Close()
	})
	kubeconfig, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "proxy",
		"contexts": []any{map[string]any{"name": "proxy", "context": map[string]any{"cluster": "proxy", "user": "proxy"}}},
		"clusters": []any{map[string]any{"name": "proxy", "cluster": map[string]any{"server": proxy.URL}}},
		"users":    []any{map[string]any{"name": "proxy", "user": map[string]any{}}},
	})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, kubeconfig, 0o600))
	return &Lab{Kubeconfig: path}
}

// Swallow answers a watch as a proxy does that hands on no events, and never ends it.
func Swallow(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}
