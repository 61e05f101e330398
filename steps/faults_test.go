package steps_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// fault is something that goes wrong between kplan and the API server.
type fault struct {
	name string
	// strike is given the requests from a moment on, counted from 0. It reports false
	// of those that it leaves alone.
	strike func(f *front, i int, w http.ResponseWriter, r *http.Request) bool
	// watches says that it concerns watches alone.
	watches bool
}

// faults are the rows of the matrix.
var faults = []fault{
	{name: "server unreachable", strike: func(f *front, i int, _ http.ResponseWriter, _ *http.Request) bool {
		if i == 0 {
			f.listener.away(500 * time.Millisecond)
			panic(http.ErrAbortHandler)
		}
		return false
	}},
	{name: "connection cut before the request", strike: first(func(*front, http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	})},
	{name: "connection cut after the request", strike: first(func(f *front, _ http.ResponseWriter, r *http.Request) {
		f.answer(r)
		panic(http.ErrAbortHandler)
	})},
	{name: "answer cut in its middle", strike: first(func(f *front, w http.ResponseWriter, r *http.Request) {
		answer := f.answer(r)
		maps.Copy(w.Header(), answer.Header())
		w.Header().Set("Content-Length", fmt.Sprint(answer.Body.Len()+1))
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
		panic(http.ErrAbortHandler)
	})},
	{name: "429, retry after a second", strike: first(func(_ *front, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		status(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests, please try again later")
	})},
	{name: "503, three times", strike: upTo(3, func(_ *front, w http.ResponseWriter, _ *http.Request) {
		status(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "apiserver is shutting down")
	})},
	{name: "etcd without a leader, twice", strike: upTo(2, func(_ *front, w http.ResponseWriter, _ *http.Request) {
		status(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcdserver: leader changed")
	})},
	{name: "etcd too slow, request done", strike: first(func(f *front, w http.ResponseWriter, r *http.Request) {
		f.answer(r)
		status(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcdserver: request timed out")
	})},
	{name: "504 of a gateway, request done", strike: first(func(f *front, w http.ResponseWriter, r *http.Request) {
		f.answer(r)
		http.Error(w, "<html>gateway timeout</html>", http.StatusGatewayTimeout)
	})},
	{name: "credentials refused once", strike: first(func(_ *front, w http.ResponseWriter, _ *http.Request) {
		status(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
	})},
	{name: "slow answers", strike: upTo(4, func(f *front, w http.ResponseWriter, r *http.Request) {
		time.Sleep(100 * time.Millisecond)
		f.next.ServeHTTP(w, r)
	})},
	{name: "watches closed", watches: true, strike: func(f *front, i int, w http.ResponseWriter, r *http.Request) bool {
		if i > 6 || !watching(r) {
			return false
		}
		f.answer(r) // for a while
		panic(http.ErrAbortHandler)
	}},
	{name: "watches expired (410)", watches: true, strike: func(_ *front, i int, w http.ResponseWriter, r *http.Request) bool {
		if i > 6 || !watching(r) {
			return false
		}
		status(w, http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
		return true
	}},
}

type strike = func(f *front, i int, w http.ResponseWriter, r *http.Request) bool

func first(does func(*front, http.ResponseWriter, *http.Request)) strike { return upTo(1, does) }

func upTo(n int, does func(*front, http.ResponseWriter, *http.Request)) strike {
	return func(f *front, i int, w http.ResponseWriter, r *http.Request) bool {
		if i < n {
			does(f, w, r)
		}
		return i < n
	}
}

func watching(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

func status(w http.ResponseWriter, code int32, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(code))
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	})
}

// front is a way to the lab on which faults happen.
type front struct {
	*labtest.Lab
	listener *listener
	next     http.Handler

	mu     sync.Mutex
	armed  bool // requests count
	count  int
	at     int // the first that the fault is given
	fault  fault
	struck bool
	made   map[string]int // creations that the API server did, by name
}

func newFront(t *testing.T, lab *labtest.Lab) *front {
	t.Helper()
	config := lab.Config(t)
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	f := &front{at: -1, made: map[string]int{}}
	f.next = &httputil.ReverseProxy{
		Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ModifyResponse: f.note,
	}
	f.listener = listen(t)
	server := &httptest.Server{Listener: f.listener, Config: &http.Server{Handler: f, ErrorLog: silent}}
	server.Start()
	t.Cleanup(func() {
		f.listener.cut()
		server.Close()
	})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte(`apiVersion: v1
kind: Config
current-context: lab
contexts: [{name: lab, context: {cluster: lab, user: lab}}]
clusters: [{name: lab, cluster: {server: "`+server.URL+`"}}]
users: [{name: lab, user: {}}]
`), 0o600))
	f.Lab = &labtest.Lab{Kubeconfig: file}
	return f
}

// arm lets a fault strike from the request on that is the at-th from now.
func (f *front) arm(at int, what fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.count, f.at, f.fault = true, 0, at, what
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	i := -1
	if f.armed {
		if f.at >= 0 && f.count >= f.at {
			i = f.count - f.at
		}
		f.count++
	}
	f.mu.Unlock()
	if i >= 0 {
		defer func() { // also of one that cuts the connection
			if p := recover(); p != nil {
				f.hit()
				panic(p)
			}
		}()
		if f.fault.strike(f, i, w, r) {
			f.hit()
			return
		}
	}
	f.next.ServeHTTP(w, r)
}

// wasHit reports whether the fault has struck. Requests that it cuts may still end.
func (f *front) wasHit() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.struck
}

func (f *front) hit() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.struck = true
}

// answer has the API server do a request, and keeps the answer. That of a watch is
// what it says in a moment.
func (f *front) answer(r *http.Request) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	if watching(r) {
		time.Sleep(100 * time.Millisecond)
		return recorder
	}
	f.next.ServeHTTP(recorder, r)
	return recorder
}

// note counts what the API server created.
func (f *front) note(resp *http.Response) error {
	if resp.Request.Method != http.MethodPost || resp.StatusCode != http.StatusCreated || resp.Request.URL.Query().Has("dryRun") {
		return nil
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	var o metav1.PartialObjectMetadata
	if json.Unmarshal(body, &o) == nil && !strings.HasPrefix(o.Name, "sh.helm.") {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.made[o.Name]++
	}
	return nil
}

// listener listens at one address, and can be away for a while: connections are
// refused then.
type listener struct {
	address string

	mu    sync.Mutex
	inner net.Listener
	back  chan struct{} // closed when it listens again
	conns map[net.Conn]bool
	ended bool
}

func listen(t *testing.T) *listener {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	back := make(chan struct{})
	close(back)
	return &listener{address: inner.Addr().String(), inner: inner, back: back, conns: map[net.Conn]bool{}}
}

// away stops listening for a while, and breaks all connections. What it starts ends
// then.
func (l *listener) away(d time.Duration) {
	l.mu.Lock()
	l.back = make(chan struct{})
	_ = l.inner.Close()
	l.mu.Unlock()
	l.cut()
	time.AfterFunc(d, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		var err error
		for l.inner, err = net.Listen("tcp", l.address); err != nil; l.inner, err = net.Listen("tcp", l.address) {
			time.Sleep(20 * time.Millisecond) // somebody else has the port for a moment
		}
		if l.ended {
			_ = l.inner.Close()
		}
		close(l.back)
	})
}

// cut breaks all connections.
func (l *listener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Close()
	}
	clear(l.conns)
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		l.mu.Lock()
		inner := l.inner
		l.mu.Unlock()
		c, err := inner.Accept()
		l.mu.Lock()
		back, ended := l.back, l.ended
		if err == nil {
			l.conns[c] = true
		}
		l.mu.Unlock()
		if err == nil || ended || !errors.Is(err, net.ErrClosed) {
			return c, err
		}
		<-back
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	return l.inner.Close()
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inner.Addr()
}
