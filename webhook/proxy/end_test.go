package proxy_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/webhook/hold"
	"github.com/kplan-dev/kplan/webhook/proxy"
)

// A request that is held when the proxy is closed has no answer: none must look as
// if it had been done.
func TestWhatIsHeldAtTheEndHasNoAnswer(t *testing.T) {
	for _, protocol := range []string{"HTTP/2.0", "HTTP/1.1"} {
		t.Run(protocol, func(t *testing.T) {
			var held sync.WaitGroup
			const many = 20
			held.Add(many)
			u := before(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, 500, failing) }), proxy.Options{
				Notify: func(n hold.Notice) {
					if n.Event == hold.Held {
						held.Done()
					}
				},
			})
			if protocol == "HTTP/1.1" {
				transport := u.client.Transport.(*http.Transport)
				transport.ForceAttemptHTTP2, transport.Protocols = false, new(http.Protocols)
				transport.Protocols.SetHTTP1(true)
			}
			answers := make(chan error, many)
			for range many {
				go func() { // ends with its request
					resp, err := u.client.Do(u.request(t.Context(), http.MethodPost, "/api/v1/namespaces/a/configmaps",
						strings.NewReader(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}`)))
					if err == nil {
						_, err = io.ReadAll(resp.Body)
						resp.Body.Close()
						if err == nil {
							err = errors.New("answered " + resp.Status)
						}
					}
					answers <- err
				}()
			}
			held.Wait()

			require.NoError(t, u.server.Close())

			for range many {
				require.NotContains(t, (<-answers).Error(), "answered")
			}
		})
	}
}

// A create whose connection broke, and that was done, is not answered as one that was
// not.
func TestWhatMayHaveBeenDoneIsSaid(t *testing.T) {
	var posts atomic.Int32
	u := before(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusOK) // it is there
		case posts.Add(1) == 1:
			answer(w, 500, failing)
		default:
			panic(http.ErrAbortHandler)
		}
	}), proxy.Options{})

	resp, body := u.do(u.request(t.Context(), http.MethodPost, "/api/v1/namespaces/a/configmaps",
		strings.NewReader(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}`)))

	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	require.Contains(t, statusOf(t, body).Message, "may have been done")
	require.NotContains(t, body, "failed calling webhook")
}

// An API server that was not ready is told of by its own answer.
func TestHeldInVainForTheAPIServer(t *testing.T) {
	u := before(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden",`+
			`"message":"configmaps \"a\" is forbidden: not yet ready to handle request"}`)
	}), proxy.Options{Timeout: 50 * time.Millisecond})

	resp, body := u.do(u.request(t.Context(), http.MethodPost, "/api/v1/namespaces/a/configmaps",
		strings.NewReader(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}`)))

	require.Equal(t, http.StatusForbidden, resp.StatusCode)
	require.EqualValues(t, "Forbidden", statusOf(t, body).Reason)
}

// No path leads to another cluster of a proxy behind which the API server may be.
func TestPathsStayInTheirCluster(t *testing.T) {
	u := before(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was handed on") }), proxy.Options{})
	for _, path := range []string{"/../other/api", "/%2e%2e/other/api", "/api/v1/%2E./x"} {
		req := u.request(t.Context(), http.MethodGet, "/", nil)
		req.URL.Opaque = "//" + req.URL.Host + "/c0" + path
		resp, body := u.do(req)
		require.Equal(t, http.StatusBadRequest, resp.StatusCode, path)
		require.Contains(t, statusOf(t, body).Message, "..")
	}
}

// The server's certificate is no authority: some clients refuse such a server.
func TestTheCertificateIsNoAuthority(t *testing.T) {
	u := before(t, http.NotFoundHandler(), proxy.Options{})
	var leaf *x509.Certificate
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		TLSHandshakeDone: func(s tls.ConnectionState, _ error) { leaf = s.PeerCertificates[0] },
	})
	u.do(u.request(ctx, http.MethodGet, "/version", nil))
	require.False(t, leaf.IsCA)
	block, _ := pem.Decode(u.server.CA())
	ca, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	require.True(t, ca.IsCA)
	require.NotEqual(t, ca.SerialNumber, leaf.SerialNumber)
}

// What is kept of all requests at once is bounded; what is more passes unheld.
func TestKeptBodiesAreBounded(t *testing.T) {
	var held, passed atomic.Int32
	release := make(chan struct{})
	u := before(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-release
		w.WriteHeader(http.StatusCreated)
	}), proxy.Options{Passed: func(*http.Request) { passed.Add(1) }})
	const many = 14 // of 3 MiB each, where 32 are kept
	var done sync.WaitGroup
	for range many {
		done.Go(func() {
			resp, err := u.client.Do(u.request(t.Context(), http.MethodPost, "/api/v1/namespaces/a/configmaps",
				strings.NewReader(strings.Repeat("x", proxy.DefaultMaxBody))))
			if err == nil {
				resp.Body.Close()
				held.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return passed.Load() == many-10 }, 20*time.Second, 5*time.Millisecond)
	close(release)
	done.Wait()
	require.EqualValues(t, many, held.Load())
}
