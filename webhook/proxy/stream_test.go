package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/webhook/proxy"
)

// What is said to a pod arrives before the pod answers, and the other way round.
func TestConversations(t *testing.T) {
	u := before(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := make([]byte, 1)
		for {
			if _, err := io.ReadFull(r.Body, b); err != nil {
				return
			}
			_, _ = w.Write(b)
			_ = http.NewResponseController(w).Flush()
		}
	}), proxy.Options{})
	r, w := io.Pipe()
	req := u.request(t.Context(), http.MethodPost, "/api/v1/namespaces/a/pods/b/proxy/talk", r)
	go func() { _, _ = w.Write([]byte("a")) }()
	resp, err := u.client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	for _, c := range "abc" {
		if c != 'a' {
			_, err := w.Write([]byte(string(c)))
			require.NoError(t, err)
		}
		b := make([]byte, 1)
		_, err := io.ReadFull(resp.Body, b)
		require.NoError(t, err)
		require.Equal(t, string(c), string(b))
	}
	require.NoError(t, w.Close())
}

// Connections that turned into another protocol, as exec's do, pass both ways, and
// end with the server.
func TestUpgrades(t *testing.T) {
	u := before(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			answer(w, http.StatusInternalServerError, err.Error())
			return
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		_, _ = io.Copy(conn, buffered)
	}), proxy.Options{})
	u.client.Transport.(*http.Transport).ForceAttemptHTTP2 = false
	req := u.request(t.Context(), http.MethodPost, "/api/v1/namespaces/a/pods/b/exec", nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "SPDY/3.1")
	resp, err := u.client.Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	require.Equal(t, "SPDY/3.1", resp.Header.Get("Upgrade"))
	conn, is := resp.Body.(io.ReadWriteCloser)
	require.True(t, is)
	defer conn.Close()
	_, err = io.WriteString(conn, "hello")
	require.NoError(t, err)
	b := make([]byte, 5)
	_, err = io.ReadFull(conn, b)
	require.NoError(t, err)
	require.Equal(t, "hello", string(b))
	require.NoError(t, u.server.Close())
	_, err = conn.Read(b)
	require.Error(t, err)
}
