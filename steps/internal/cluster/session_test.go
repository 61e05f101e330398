package cluster

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// A fresh session makes a connection for every request, so that each may reach
// another API server; others keep theirs.
func TestSessionFresh(t *testing.T) {
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "Bearer secret-token", r.Header.Get("Authorization"), "credentials are kept")
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"NamespaceList","items":[]}`))
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	c := &Cluster{Access: &Access{config: &rest.Config{
		Host: server.URL, BearerToken: "secret-token", TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}}}
	for _, tt := range []struct {
		fresh bool
		want  int64
	}{{false, 1}, {true, 5}} {
		connections.Store(0)
		s, err := c.Session(Options{Fresh: tt.fresh})
		require.NoError(t, err)
		for range 5 {
			_, err := s.Clientset.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
		}
		require.Equal(t, tt.want, connections.Load(), "fresh: %v", tt.fresh)
	}
}
