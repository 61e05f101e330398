package otlp

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// The variables of OpenTelemetry that say where a trace goes and how. For each there is
// one with TRACES_ after its prefix, which wins.
const (
	prefix       = "OTEL_EXPORTER_OTLP_"
	tracesPrefix = prefix + "TRACES_"
)

// Where collectors take traces, below their address, and how long one request may take
// when nobody says: both as OpenTelemetry has them.
const (
	tracesPath     = "/v1/traces"
	defaultTimeout = 10 * time.Second
)

// ErrNoEndpoint says that neither the user nor the environment names a collector.
var ErrNoEndpoint = errors.New("neither OTEL_EXPORTER_OTLP_TRACES_ENDPOINT nor OTEL_EXPORTER_OTLP_ENDPOINT is set")

// Endpoint is a collector that takes traces by HTTP.
type Endpoint struct {
	url     *url.URL
	header  http.Header
	timeout time.Duration
	json    bool
	gzip    bool
	client  http.RoundTripper
}

// IsURL reports whether a user means a collector, and not a file.
func IsURL(s string) bool {
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}

// NewEndpoint returns the collector at an address, or that of the environment when the
// address is empty. An address without a path is that of a collector, which takes traces
// below it. The environment also has headers, certificates, the time that a request may take
// and its form.
func NewEndpoint(address string, getenv func(string) string) (*Endpoint, error) {
	get := func(name string) string {
		return cmp.Or(strings.TrimSpace(getenv(tracesPrefix+name)), strings.TrimSpace(getenv(prefix+name)))
	}
	at, err := locate(address, getenv)
	if err != nil {
		return nil, err
	}
	e := &Endpoint{url: at, header: http.Header{}, timeout: defaultTimeout}
	for _, p := range pairs(get("HEADERS")) {
		e.header.Set(p[0], p[1])
	}
	if s := get("TIMEOUT"); s != "" {
		ms, err := strconv.Atoi(s)
		if err != nil || ms <= 0 {
			return nil, fmt.Errorf("%sTIMEOUT: %q is no number of milliseconds", prefix, s)
		}
		e.timeout = time.Duration(ms) * time.Millisecond
	}
	switch s := get("PROTOCOL"); s {
	case "", "http/protobuf":
	case "http/json":
		e.json = true
	default:
		return nil, fmt.Errorf("%sPROTOCOL: kplan does not speak %q, only http/protobuf and http/json", prefix, s)
	}
	switch s := get("COMPRESSION"); s {
	case "", "none":
	case "gzip":
		e.gzip = true
	default:
		return nil, fmt.Errorf("%sCOMPRESSION: there is no %q, only gzip and none", prefix, s)
	}
	e.client, err = transport(get)
	return e, err
}

// String returns the address without what may be secret in it: login and query.
func (e *Endpoint) String() string {
	return (&url.URL{Scheme: e.url.Scheme, Host: e.url.Host, Path: e.url.Path}).String()
}

// locate finds the address that traces are sent to.
func locate(address string, getenv func(string) string) (*url.URL, error) {
	whole, from := false, ""
	if address == "" {
		if address, from = strings.TrimSpace(getenv(tracesPrefix+"ENDPOINT")), tracesPrefix+"ENDPOINT: "; address != "" {
			whole = true
		} else if address, from = strings.TrimSpace(getenv(prefix+"ENDPOINT")), prefix+"ENDPOINT: "; address == "" {
			return nil, ErrNoEndpoint
		} else {
			address = strings.TrimSuffix(address, "/") + tracesPath
		}
	}
	at, err := url.Parse(address)
	if err != nil || !IsURL(address) || at.Host == "" { // the error of Parse quotes all of it
		return nil, fmt.Errorf("%sthat is no address: write http://HOST:PORT or https://HOST:PORT", from)
	}
	if !whole && (at.Path == "" || at.Path == "/") {
		at.Path = tracesPath
	}
	return at, nil
}

// transport is how a collector is reached: by the environment's proxy, and with its
// certificates.
func transport(get func(string) string) (http.RoundTripper, error) {
	own, _ := http.DefaultTransport.(*http.Transport)
	t := own.Clone()
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if file := get("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%sCERTIFICATE: %w", prefix, err)
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%sCERTIFICATE: %s has no certificate", prefix, file)
		}
	}
	certificate, key := get("CLIENT_CERTIFICATE"), get("CLIENT_KEY")
	if certificate != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("%sCLIENT_CERTIFICATE, %sCLIENT_KEY: %w", prefix, prefix, err)
		}
		t.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}
