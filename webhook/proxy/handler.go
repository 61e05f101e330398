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
	"time"

	"golang.org/x/net/http/httpguts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/webhook/hold"
)

// DefaultMaxBody bounds what a request may send to be held, in bytes: an API
// server takes no more for one object (k8s.io/apiserver
// pkg/server/config.go, MaxRequestBodyBytes).
const DefaultMaxBody = 3 << 20

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
	if path := strings.TrimSuffix(config.Host, "/"); strings.Contains(path, "://") {
		if target, err = url.Parse(path); err != nil { // DefaultServerUrlFor leaves out the path
			return nil, fmt.Errorf("address of the API server: %w", err)
		}
	}
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
		Rewrite: h.rewrite, Transport: h, ErrorHandler: h.failed,
		FlushInterval: -1, // watches and logs are read as they come
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	return h, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.keep(r); err != nil {
		h.failed(w, r, err)
		return
	}
	h.proxy.ServeHTTP(w, r)
}

// rewrite points a request at the API server, without the client's credentials.
// ReverseProxy leaves out its own additions, X-Forwarded-For among them.
func (h *Handler) rewrite(r *httputil.ProxyRequest) {
	r.SetURL(h.target)
	r.Out.Host = h.target.Host
	r.Out.Header.Del("Authorization")
	if _, ok := r.Out.Header["User-Agent"]; !ok {
		r.Out.Header.Set("User-Agent", "") // or the transport would name Go's
	}
}

// RoundTrip sends a request by the transport that fits it.
func (h *Handler) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case isUpgrade(r):
		return h.upgrade.RoundTrip(r)
	case unheld(r):
		return h.plain.RoundTrip(r)
	}
	return h.held.RoundTrip(r)
}

func isUpgrade(r *http.Request) bool {
	return httpguts.HeaderValuesContainsToken(r.Header["Connection"], "Upgrade")
}

type unheldKey struct{}

func unheld(r *http.Request) bool { return r.Context().Value(unheldKey{}) != nil }

// keep reads a request's body, so that it can be sent again. What is too large
// passes as it comes.
func (h *Handler) keep(r *http.Request) error {
	if r.Body == nil || r.Body == http.NoBody || isUpgrade(r) {
		return nil
	}
	if r.ContentLength <= h.options.MaxBody {
		b, err := io.ReadAll(io.LimitReader(r.Body, h.options.MaxBody+1))
		if err != nil {
			return fmt.Errorf("reading the request: %w", err)
		}
		if int64(len(b)) <= h.options.MaxBody {
			rest := r.Body // a client that goes away is noticed by reading on
			r.Body = &body{bytes.NewReader(b), rest}
			r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
			if r.ContentLength < 0 { // it came in chunks
				r.ContentLength, r.TransferEncoding = int64(len(b)), nil
			}
			return nil
		}
		r.Body = &body{io.MultiReader(bytes.NewReader(b), r.Body), r.Body}
	}
	*r = *r.WithContext(context.WithValue(r.Context(), unheldKey{}, true))
	if h.options.Passed != nil {
		h.options.Passed(r)
	}
	return nil
}

type body struct {
	io.Reader
	io.Closer
}

// failed answers a request for which the API server gave no answer.
func (h *Handler) failed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // nobody reads it
	}
	var held *hold.Error
	if errors.As(err, &held) {
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
	status := apierrors.NewGenericServerResponse(code, strings.ToLower(r.Method), resourceOf(r), "", "", 0, true).Status()
	status.Message = "kplan cannot reach the API server: " + err.Error()
	writeStatus(w, r, status)
}
