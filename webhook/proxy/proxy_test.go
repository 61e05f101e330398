package proxy_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/webhook/hold"
	"github.com/kplan-dev/kplan/webhook/proxy"
)

const failing = `Internal error occurred: failed calling webhook "v.example.io": failed to call webhook: ` +
	`Post "https://w.ns.svc:443/v?timeout=10s": dial tcp 10.96.0.9:443: connect: connection refused`

// upstream is a server in the place of an API server, and a proxy before it.
type upstream struct {
	t      *testing.T
	url    string
	token  string
	client *http.Client
	server *proxy.Server
}

// before puts a proxy before what answers in an API server's place. Its path is one
// below which a real one may be served.
func before(t *testing.T, api http.Handler, o proxy.Options) *upstream {
	t.Helper()
	server := httptest.NewUnstartedServer(http.StripPrefix("/k8s", api))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	o.Gate = hold.NewGate(nil)
	h, err := proxy.NewHandler(&rest.Config{Host: server.URL + "/k8s", BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, o)
	require.NoError(t, err)
	s, err := proxy.Listen("127.0.0.1:0")
	require.NoError(t, err)
	u := &upstream{t: t, url: s.Handle("/c0", h), token: s.Token(), server: s}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.NoError(t, <-served)
	})
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(s.CA()))
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true, DisableCompression: true,
	}
	t.Cleanup(transport.CloseIdleConnections)
	u.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return u
}

// request makes one that has the token.
func (u *upstream) request(ctx context.Context, method, path string, body io.Reader) *http.Request {
	u.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, u.url+path, body)
	require.NoError(u.t, err)
	req.Header.Set("Authorization", "Bearer "+u.token)
	return req
}

func (u *upstream) do(req *http.Request) (*http.Response, string) {
	u.t.Helper()
	resp, err := u.client.Do(req)
	require.NoError(u.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(u.t, err)
	return resp, string(b)
}

// statusOf is the Status that was answered.
func statusOf(t *testing.T, body string) metav1.Status {
	t.Helper()
	var s metav1.Status
	require.NoError(t, json.Unmarshal([]byte(body), &s), body)
	require.Equal(t, "Status", s.Kind)
	return s
}

func answer(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Message: message, Code: int32(code), Reason: metav1.StatusReasonInternalError,
	})
}

// Only loopback addresses are listened at.
func TestListenIsForThisMachineAlone(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.com:0", "8001"} {
		_, err := proxy.Listen(address)
		require.ErrorContains(t, err, "address", address)
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0", "127.0.0.2:0"} {
		s, err := proxy.Listen(address)
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
}

// Without the token of this server nobody gets through, nor learns anything.
func TestTheTokenIsAsked(t *testing.T) {
	reached := atomic.Bool{}
	u := before(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }), proxy.Options{})
	for _, authorization := range []string{"", "Bearer", "Bearer ", "Bearer x", u.token, "Basic " + u.token, "Bearer " + u.token + "x", "Bearer " + u.token[1:]} {
		req := u.request(t.Context(), http.MethodGet, "/version", nil)
		req.Header.Set("Authorization", authorization)
		resp, body := u.do(req)
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode, authorization)
		require.Equal(t, metav1.StatusReasonUnauthorized, statusOf(t, body).Reason)
		require.NotContains(t, body, u.token)
	}
	require.False(t, reached.Load())
	req := u.request(t.Context(), http.MethodGet, "", nil)
	req.URL.Path = "/c1/version"
	resp, body := u.do(req)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
	require.Contains(t, statusOf(t, body).Message, "no cluster at /c1")
}

// What is sent arrives as it was, but for the credentials, which are the proxy's.
func TestRequestsPassUnchanged(t *testing.T) {
	got := make(chan *http.Request, 1)
	bodies := make(chan string, 1)
	u := before(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies <- string(b)
		got <- r
	}), proxy.Options{})
	req := u.request(t.Context(), http.MethodPatch, "/api/v1/namespaces/a/services/b:80/x%2Fy//z?fieldManager=helm&a=b;c&force", io.MultiReader(strings.NewReader("{}"))) // chunked
	for k, v := range map[string]string{
		"Impersonate-User": "jane", "Impersonate-Extra-Scopes": "dev", "Content-Type": "application/apply-patch+yaml",
		"Accept": "application/json;as=Table;v=v1", "Accept-Encoding": "br, gzip", "Kubectl-Session": "1", "X-Forwarded-For": "10.0.0.1",
	} {
		req.Header.Set(k, v)
	}
	req.Header["User-Agent"] = nil
	u.do(req)
	r := <-got
	require.Equal(t, http.MethodPatch, r.Method)
	require.Equal(t, "/k8s/api/v1/namespaces/a/services/b:80/x%2Fy//z?fieldManager=helm&a=b;c&force", r.RequestURI)
	require.Equal(t, "{}", <-bodies)
	require.Equal(t, http.Header{
		"Impersonate-User": {"jane"}, "Impersonate-Extra-Scopes": {"dev"}, "Content-Type": {"application/apply-patch+yaml"},
		"Accept": {"application/json;as=Table;v=v1"}, "Accept-Encoding": {"gzip"}, "Kubectl-Session": {"1"},
		"Authorization": {"Bearer secret"}, "Content-Length": {"2"}, // of a body that came in chunks, which is kept
	}, r.Header)
}

// What is answered comes back as it was: the status, headers and each byte.
func TestAnswersPassUnchanged(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte(strings.Repeat("x", 1<<20)))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	u := before(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/packed":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed.Bytes())
		case "/busy":
			w.Header().Set("Retry-After", "7")
			answer(w, http.StatusTooManyRequests, "busy")
		case "/conflict":
			answer(w, http.StatusConflict, "the object has been modified")
		case "/moved":
			w.Header().Set("Location", "/k8s/api/v1/there?x=y")
			w.WriteHeader(http.StatusFound)
		case "/away":
			w.Header().Set("Location", "https://example.com/k8s/api")
			w.WriteHeader(http.StatusFound)
		}
	}), proxy.Options{})
	get := func(path string) (*http.Response, string) {
		req := u.request(t.Context(), http.MethodGet, path, nil)
		req.Header.Set("Accept-Encoding", "gzip")
		return u.do(req)
	}
	resp, body := get("/packed")
	require.Equal(t, packed.String(), body)
	require.Equal(t, "gzip", resp.Header.Get("Content-Encoding"))
	resp, body = get("/busy")
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.Equal(t, "7", resp.Header.Get("Retry-After"))
	require.Equal(t, "busy", statusOf(t, body).Message)
	resp, _ = get("/conflict")
	require.Equal(t, http.StatusConflict, resp.StatusCode)
	resp, _ = get("/moved")
	require.Equal(t, "/c0/api/v1/there?x=y", resp.Header.Get("Location"))
	resp, _ = get("/away")
	require.Equal(t, "https://example.com/k8s/api", resp.Header.Get("Location"))
}

// A watch is read as it comes, and ends with its client.
func TestAnswersAreStreamed(t *testing.T) {
	next, ended := make(chan bool), make(chan bool)
	u := before(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := range 3 {
			_, _ = fmt.Fprintln(w, i)
			_ = http.NewResponseController(w).Flush()
			<-next
		}
		<-r.Context().Done()
		close(ended)
	}), proxy.Options{})
	resp, err := u.client.Do(u.request(t.Context(), http.MethodGet, "/api/v1/pods?watch=1", nil))
	require.NoError(t, err)
	for i := range 3 {
		b := make([]byte, 2)
		_, err := io.ReadFull(resp.Body, b)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintln(i), string(b))
		next <- true
	}
	require.NoError(t, resp.Body.Close())
	<-ended
}

// A body that is no object, or too large to be one, is sent as it comes, and once.
func TestLargeBodiesPassUnheld(t *testing.T) {
	var sends, passed atomic.Int32
	u := before(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sends.Add(1)
		n, _ := io.Copy(io.Discard, r.Body)
		answer(w, http.StatusInternalServerError, fmt.Sprint(n, " ", failing))
	}), proxy.Options{MaxBody: 1000, Passed: func(*http.Request) { passed.Add(1) }})
	for i, body := range []io.Reader{
		strings.NewReader(strings.Repeat("x", 1001)),
		io.MultiReader(strings.NewReader(strings.Repeat("x", 5000))), // whose length nobody knows
	} {
		resp, text := u.do(u.request(t.Context(), http.MethodPost, "/api/v1/namespaces/a/configmaps", body))
		require.Equal(t, http.StatusInternalServerError, resp.StatusCode)
		require.Contains(t, text, []string{"1001 ", "5000 "}[i])
		require.EqualValues(t, i+1, sends.Load())
		require.EqualValues(t, i+1, passed.Load())
	}
	_, _ = u.do(u.request(t.Context(), http.MethodPost, "/api/v1/namespaces/a/pods/b/proxy/upload", strings.NewReader("x")))
	require.EqualValues(t, 3, sends.Load())
	require.EqualValues(t, 2, passed.Load(), "it is none that could be held")
}

// A request that a webhook cannot judge is held, with its whole body.
func TestRequestsAreHeld(t *testing.T) {
	var sends atomic.Int32
	u := before(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b, _ := io.ReadAll(r.Body); sends.Add(1) < 3 || !bytes.Contains(b, []byte(`"w1"`)) {
			answer(w, http.StatusInternalServerError, failing)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}), proxy.Options{})
	body := `{"kind":"Widget","apiVersion":"example.io/v1","metadata":{"name":"w1"}}`
	resp, _ := u.do(u.request(t.Context(), http.MethodPost, "/apis/example.io/v1/namespaces/a/widgets", strings.NewReader(body)))
	require.Equal(t, http.StatusCreated, resp.StatusCode)
	require.EqualValues(t, 3, sends.Load())
}

// Who waited in vain gets the API server's words and why, in what it accepts.
func TestHeldInVain(t *testing.T) {
	u := before(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusInternalServerError, failing)
	}), proxy.Options{Timeout: 50 * time.Millisecond, Explain: func(e *hold.Error) string { return "nobody brings " + e.Fault.Webhook }})
	body := `{"kind":"Widget","apiVersion":"example.io/v1","metadata":{"name":"w1"}}`
	for _, accept := range []string{"", "application/json", "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"} {
		req := u.request(t.Context(), http.MethodPost, "/apis/example.io/v1/namespaces/a/widgets", strings.NewReader(body))
		req.Header.Set("Accept", accept)
		resp, text := u.do(req)
		require.Equal(t, http.StatusInternalServerError, resp.StatusCode)
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(text), nil, nil)
		require.NoError(t, err)
		status, is := object.(*metav1.Status)
		require.True(t, is)
		require.Equal(t, failing+" (kplan: nobody brings v.example.io)", status.Message)
		require.Equal(t, "Widget", status.Details.Kind)
		want := runtime.ContentTypeJSON
		if accept == runtime.ContentTypeProtobuf {
			want = accept
		}
		require.Equal(t, want, resp.Header.Get("Content-Type"))
	}
}

// A held request ends with its client.
func TestAHeldRequestEndsWithItsClient(t *testing.T) {
	notices := make(chan hold.Notice, 10)
	u := before(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusInternalServerError, failing)
	}), proxy.Options{Notify: func(n hold.Notice) { notices <- n }})
	for _, protocol := range []string{"HTTP/2.0", "HTTP/1.1"} {
		if protocol == "HTTP/1.1" {
			u.client.Transport.(*http.Transport).TLSClientConfig.NextProtos = []string{"http/1.1"}
			u.client.Transport.(*http.Transport).ForceAttemptHTTP2 = false
			u.client.CloseIdleConnections()
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := make(chan error, 1)
		go func() {
			resp, err := u.client.Do(u.request(ctx, http.MethodPost, "/api/v1/namespaces/a/configmaps", strings.NewReader("{}")))
			if err == nil {
				_ = resp.Body.Close()
			}
			gone <- err
		}()
		require.Equal(t, hold.Held, (<-notices).Event)
		cancel(nil)
		n := <-notices
		require.Equal(t, hold.Released, n.Event)
		require.ErrorIs(t, n.Err, context.Canceled)
		require.ErrorIs(t, <-gone, context.Canceled)
	}
}

// An API server that cannot be reached is told as one that cannot be reached.
func TestAServerThatIsAway(t *testing.T) {
	h, err := proxy.NewHandler(&rest.Config{Host: "https://127.0.0.1:1"}, proxy.Options{Gate: hold.NewGate(nil)})
	require.NoError(t, err)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/namespaces/a/pods/b", nil))
	require.Equal(t, http.StatusBadGateway, w.Code)
	status := statusOf(t, w.Body.String())
	require.Contains(t, status.Message, "kplan cannot reach the API server: dial tcp 127.0.0.1:1: connect: connection refused")
	require.Equal(t, "pods", status.Details.Kind)
}
