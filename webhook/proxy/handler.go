package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/webhook/hold"
)

// DefaultMaxBody bounds what a request may send to be held, in bytes: an API
// server takes no more for one object (k8s.io/apiserver
// pkg/server/config.go, MaxRequestBodyBytes).
const DefaultMaxBody = 3 << 20

// maxKept bounds what a Handler keeps of all requests at once, in bytes. What comes
// while there is more is sent once, and not held.
const maxKept = 32 << 20

// Options say how a Handler holds.
type Options struct {
	// Gate is the cluster's. Required.
	Gate *hold.Gate
	// Timeout and Grace bound a hold; see [hold.Transport].
	Timeout, Grace time.Duration
	// Notify is told of requests that are held; see [hold.Transport]. It may be nil.
	Notify func(hold.Notice)
	// Explain says for the client why a request was held in vain; nil: as its
	// error does.
	Explain func(*hold.Error) string
	// MaxBody bounds, in bytes, what is kept of a request's body so that it can be
	// sent again; DefaultMaxBody when 0. Larger requests are never held.
	MaxBody int64
	// Passed is told of a request that is too large to be held. It may be nil.
	Passed func(*http.Request)
}

// Handler passes requests on to one API server. It is safe for concurrent use.
type Handler struct {
	// kept is how many bytes of requests are kept so that they can be sent again.
	kept    atomic.Int64
	options Options
	target  *url.URL
	proxy   *httputil.ReverseProxy
	// held and plain send requests, those that can be held and the others; upgrade
	// sends those that turn into another protocol, which HTTP/2 cannot.
	held, plain, upgrade http.RoundTripper
}

var _ http.Handler = (*Handler)(nil)

// NewHandler makes a handler that reaches an API server as config says, with its
// credentials. The client's own ones are not used.
func NewHandler(config *rest.Config, o Options) (*Handler, error) {
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	target.Path = strings.TrimSuffix(target.Path, "/")
	config = rest.CopyConfig(config)
	config.Timeout = 0
	// The client says what it accepts, and decompresses itself.
	config.DisableCompression = true
	plain, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("transport to the API server: %w", err)
	}
	config.NextProtos = []string{"http/1.1"}
	upgrade, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("transport to the API server: %w", err)
	}
	if o.MaxBody == 0 {
		o.MaxBody = DefaultMaxBody
	}
	h := &Handler{options: o, target: target, plain: plain, upgrade: upgrade}
	h.held = &hold.Transport{Base: plain, Gate: o.Gate, Timeout: o.Timeout, Grace: o.Grace, Notify: o.Notify}
	h.proxy = &httputil.ReverseProxy{
		Rewrite: h.rewrite, Transport: sender{h}, ErrorHandler: h.failed, ModifyResponse: h.located,
		FlushInterval: -1,                         // watches and logs are read as they come
		ErrorLog:      log.New(io.Discard, "", 0), // of clients that do not read to the end
		BufferPool:    buffers{},
	}
	return h, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kept, err := h.keep(r)
	defer h.kept.Add(-kept)
	if err != nil {
		h.failed(w, r, err)
		return
	}
	h.proxy.ServeHTTP(w, r)
}

// rewrite points a request at the API server, without the client's credentials.
// ReverseProxy adds nothing of its own, X-Forwarded-For for example.
func (h *Handler) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.RawQuery = r.In.URL.RawQuery // ReverseProxy leaves out what it does not understand
	r.SetURL(h.target)
	r.Out.Host = h.target.Host
	r.Out.Header.Del("Authorization")
	if _, ok := r.Out.Header["User-Agent"]; !ok {
		r.Out.Header.Set("User-Agent", "") // or the transport would name Go's
	}
	// An error must be understood, and the API server knows no other coding.
	if accepted := r.Out.Header["Accept-Encoding"]; accepted != nil {
		r.Out.Header.Del("Accept-Encoding")
		if httpguts.HeaderValuesContainsToken(accepted, "gzip") {
			r.Out.Header.Set("Accept-Encoding", "gzip")
		}
	}
}

// located makes a redirection lead through the proxy again.
func (h *Handler) located(resp *http.Response) error {
	location := resp.Header.Get("Location")
	if location == "" {
		return nil
	}
	to, err := url.Parse(location)
	if err != nil || (to.Host != "" && to.Host != h.target.Host) || !strings.HasPrefix(to.Path, h.target.Path+"/") {
		return nil // it is the client's to judge
	}
	prefix, _ := resp.Request.Context().Value(prefixKey{}).(string)
	to.Scheme, to.Host = "", ""
	to.Path, to.RawPath = prefix+strings.TrimPrefix(to.Path, h.target.Path), ""
	resp.Header.Set("Location", to.String())
	return nil
}

// prefixKey is of a context's value: the path below which a request was served.
type prefixKey struct{}

// sender sends requests by the transport that fits them.
type sender struct{ *Handler }

// RoundTrip implements http.RoundTripper.
func (s sender) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case isUpgrade(r):
		return s.upgrade.RoundTrip(r)
	case r.Context().Value(unheldKey{}) != nil:
		return s.plain.RoundTrip(r)
	}
	return s.held.RoundTrip(r)
}

// buffers are those that bodies are copied by: of the size of a frame of HTTP/2, for
// a client may send hundreds of requests at once.
type buffers struct{}

var pool = sync.Pool{New: func() any { return new([16 << 10]byte) }}

func (buffers) Get() []byte { return pool.Get().(*[16 << 10]byte)[:] } // it has nothing else

func (buffers) Put(b []byte) { pool.Put((*[16 << 10]byte)(b)) }

func isUpgrade(r *http.Request) bool {
	return httpguts.HeaderValuesContainsToken(r.Header["Connection"], "Upgrade")
}

// unheldKey is of a context's value: the request is sent once.
type unheldKey struct{}

// streams tells whether a request's body may be one side of a conversation: the
// API server hands it on to a pod, a Service or a node.
func streams(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/proxy") || strings.Contains(r.URL.Path, "/proxy/")
}

// keep reads a request's body, so that it can be sent again, and returns how many
// bytes count as kept until the request ends. What is too large, or no object,
// passes as it comes, and so does what is too much beside other requests.
func (h *Handler) keep(r *http.Request) (kept int64, err error) {
	if r.Body == nil || r.Body == http.NoBody || isUpgrade(r) {
		return 0, nil
	}
	if streams(r) {
		*r = *r.WithContext(context.WithValue(r.Context(), unheldKey{}, true))
		return 0, nil
	}
	kept = max(r.ContentLength, 0) // how much comes in chunks shows when it is there
	if r.ContentLength <= h.options.MaxBody && h.kept.Add(kept) <= maxKept {
		var read bytes.Buffer
		read.Grow(int(max(r.ContentLength, 0)) + bytes.MinRead) // which ReadFrom wants to have left
		if _, err := read.ReadFrom(io.LimitReader(r.Body, h.options.MaxBody+1)); err != nil {
			return kept, fmt.Errorf("reading the request: %w", err)
		}
		b := read.Bytes()
		if int64(len(b)) <= h.options.MaxBody {
			h.kept.Add(int64(len(b)) - kept)
			kept = int64(len(b))
			r.Body = &body{bytes.NewReader(b), r.Body}
			r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
			if r.ContentLength < 0 { // it came in chunks
				r.ContentLength, r.TransferEncoding = int64(len(b)), nil
			}
			return kept, nil
		}
		r.Body = &body{io.MultiReader(bytes.NewReader(b), r.Body), r.Body}
	} else if r.ContentLength > h.options.MaxBody {
		kept = 0
	}
	*r = *r.WithContext(context.WithValue(r.Context(), unheldKey{}, true))
	if h.options.Passed != nil {
		h.options.Passed(r)
	}
	return kept, nil
}

type body struct {
	io.Reader
	io.Closer
}

// failed answers a request for which the API server gave no answer.
func (h *Handler) failed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		// The client has left, or the server is being closed. To return would be to
		// answer that all is well.
		panic(http.ErrAbortHandler)
	}
	if held, is := errors.AsType[*hold.Error](err); is && held.Cause != nil {
		WriteError(w, r, http.StatusBadGateway, fmt.Sprintf("kplan gave up %s, which may have been done: %v", held.Request, held.Cause))
		return
	} else if is {
		explanation := held.Error()
		if h.options.Explain != nil {
			explanation = h.options.Explain(held)
		}
		writeStatus(w, r, inVain(held, explanation))
		return
	}
	code := http.StatusBadGateway
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		code = http.StatusGatewayTimeout
	}
	WriteError(w, r, code, "kplan cannot reach the API server: "+err.Error())
}
