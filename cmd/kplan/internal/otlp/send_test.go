package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// collector takes traces by HTTP as OTLP defines it, and keeps them.
type collector struct {
	mu       sync.Mutex
	requests []*http.Request
	spans    []*tracepb.Span
}

// ServeHTTP implements http.Handler.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unpacked
	}
	b, err := io.ReadAll(body)
	d := &tracepb.TracesData{}
	if r.Header.Get("Content-Type") == "application/x-protobuf" {
		err = errors.Join(err, proto.Unmarshal(b, d))
	}
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || err != nil {
		http.Error(w, "not OTLP", http.StatusBadRequest)
		return
	}
	for _, r := range d.ResourceSpans {
		for _, s := range r.ScopeSpans {
			c.spans = append(c.spans, s.Spans...)
		}
	}
}

func TestSend(t *testing.T) {
	c := &collector{}
	server := httptest.NewServer(c)
	defer server.Close()
	e, err := NewEndpoint(server.URL, getenv(map[string]string{
		"OTEL_EXPORTER_OTLP_HEADERS": "x-token=a%20b", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
	}))
	require.NoError(t, err)
	want := Build(demo("run"), Source{})
	require.NoError(t, e.Send(t.Context(), want))
	require.Len(t, c.requests, 1)
	require.Equal(t, "a b", c.requests[0].Header.Get("X-Token"))
	require.Len(t, c.spans, len(spansOf(want)))
	for i, s := range spansOf(want) {
		require.True(t, proto.Equal(s, c.spans[i]), s.Name)
	}
}

// TestSendToACollectorWithItsOwnAuthority trusts the certificate that the environment names,
// and no other.
func TestSendToACollectorWithItsOwnAuthority(t *testing.T) {
	c := &collector{}
	server := httptest.NewTLSServer(c)
	defer server.Close()
	server.Config.ErrorLog = nil
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	e, err := NewEndpoint(server.URL, getenv(map[string]string{"OTEL_EXPORTER_OTLP_CERTIFICATE": file}))
	require.NoError(t, err)
	require.NoError(t, e.Send(t.Context(), Build(demo("run"), Source{})))
	require.NotEmpty(t, c.spans)
}

// TestManySpans are sent in several requests.
func TestManySpans(t *testing.T) {
	c := &collector{}
	server := httptest.NewServer(c)
	defer server.Close()
	e, err := NewEndpoint(server.URL, getenv(nil))
	require.NoError(t, err)
	d := Build(demo("run"), Source{})
	one := spansOf(d)[0]
	for range 2 * batchSpans {
		d.ResourceSpans[0].ScopeSpans[0].Spans = append(d.ResourceSpans[0].ScopeSpans[0].Spans, one)
	}
	require.NoError(t, e.Send(t.Context(), d))
	require.Len(t, c.requests, 3)
	require.Len(t, c.spans, len(spansOf(d)))
}

// answers is a collector within the test, which gives one answer after another.
type answers struct {
	t     *testing.T
	list  []answer
	start time.Time
	at    []time.Duration // when requests came, after start
}

type answer struct {
	status int
	header map[string]string
	body   string
	err    error
}

// RoundTrip implements http.RoundTripper.
func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	require.NotEmpty(a.t, a.list, "one request too many")
	a.at = append(a.at, time.Since(a.start))
	next := a.list[0]
	a.list = a.list[1:]
	if next.err != nil {
		return nil, next.err
	}
	header := http.Header{}
	for name, value := range next.header {
		header.Set(name, value)
	}
	return &http.Response{
		StatusCode: next.status, Status: http.StatusText(next.status), Header: header, Body: io.NopCloser(strings.NewReader(next.body)),
	}, nil
}

// TestSendTriesAgain follows what collectors answer, in the time of a bubble.
func TestSendTriesAgain(t *testing.T) {
	busy := func(after string) answer {
		return answer{status: http.StatusTooManyRequests, header: map[string]string{"Retry-After": after}}
	}
	ok := answer{status: http.StatusOK}
	const s = time.Second
	for name, test := range map[string]struct {
		answers []answer
		at      []time.Duration
		err     string
	}{
		"taken at once":                    {[]answer{ok}, []time.Duration{0}, ""},
		"busy, and says how long":          {[]answer{busy("7"), ok}, []time.Duration{0, 7 * s}, ""},
		"busy, and says until when":        {[]answer{busy("Sat, 01 Jan 2000 00:00:05 GMT"), ok}, []time.Duration{0, 5 * s}, ""},
		"busy, and does not say":           {[]answer{busy(""), busy(""), ok}, []time.Duration{0, s, 3 * s}, ""},
		"away":                             {[]answer{{status: 503}, {status: 502}, {status: 504}, ok}, []time.Duration{0, s, 3 * s, 7 * s}, ""},
		"nobody there":                     {[]answer{{err: errors.New("connection refused")}, ok}, []time.Duration{0, s}, ""},
		"never anybody there":              {[]answer{{err: errors.New("refused")}, {err: errors.New("refused")}, {err: errors.New("refused")}, {err: errors.New("refused")}}, []time.Duration{0, s, 3 * s, 7 * s}, "refused"},
		"busy for longer than kplan waits": {[]answer{busy("60")}, []time.Duration{0}, "the collector answers Too Many Requests; it asks to wait 1m0s, longer than kplan does"},
		"busy for ever":                    {[]answer{busy("99999999999999999999")}, []time.Duration{0}, ""},
		"a mistake of ours": {
			[]answer{{status: 400, header: map[string]string{"Content-Type": "text/plain"}, body: "bad \x1b[31mspans\n"}},
			[]time.Duration{0},
			"the collector answers Bad Request: bad spans",
		},
		"no right":    {[]answer{{status: 401, body: "<html>"}}, []time.Duration{0}, "the collector answers Unauthorized"},
		"a redirect":  {[]answer{{status: 307, header: map[string]string{"Location": "http://elsewhere.example/"}}}, []time.Duration{0}, "the collector answers Temporary Redirect: name the address that it leads to"},
		"some spans":  {[]answer{{status: 200, body: partial(3, "too old")}}, []time.Duration{0}, "the collector rejected 3 spans: too old"},
		"a warning":   {[]answer{{status: 200, body: partial(0, "slow down")}}, []time.Duration{0}, "the collector warns: slow down"},
		"odd answers": {[]answer{{status: 200, body: "\xff\xff\xff"}}, []time.Duration{0}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if name == "busy for ever" { // which is no number of seconds, and no date
					test.answers, test.at = append(test.answers, ok), []time.Duration{0, s}
				}
				a := &answers{t: t, list: test.answers, start: time.Now()}
				e, err := NewEndpoint("http://collector.example:4318", getenv(nil))
				require.NoError(t, err)
				e.client = a
				err = e.Send(t.Context(), Build(demo("run"), Source{}))
				if test.err == "" {
					require.NoError(t, err)
				} else {
					require.EqualError(t, err, test.err)
				}
				require.Equal(t, test.at, a.at)
				require.Empty(t, a.list)
			})
		})
	}
}

// partial is an ExportTraceServiceResponse in protobuf.
func partial(spans uint64, message string) string {
	inner := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), spans)
	inner = protowire.AppendString(protowire.AppendTag(inner, 2, protowire.BytesType), message)
	return string(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), inner))
}

// hanging is a collector that never answers.
type hanging struct{}

func (hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestSendEnds(t *testing.T) {
	d := Build(demo("run"), Source{})
	synctest.Test(t, func(t *testing.T) {
		e, err := NewEndpoint("http://collector.example", getenv(nil))
		require.NoError(t, err)
		e.client = hanging{}
		start := time.Now()
		require.ErrorIs(t, e.Send(t.Context(), d), ErrTooLong)
		require.Equal(t, sendTime, time.Since(start))
	})
	synctest.Test(t, func(t *testing.T) {
		e, err := NewEndpoint("http://collector.example", getenv(map[string]string{"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "500"}))
		require.NoError(t, err)
		e.client = hanging{}
		require.EqualError(t, e.Send(t.Context(), d), "no answer within 500ms")
	})
	synctest.Test(t, func(t *testing.T) {
		e, err := NewEndpoint("http://collector.example", getenv(nil))
		require.NoError(t, err)
		e.client = hanging{}
		stopped := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(2*time.Second, func() { cancel(stopped) })
		start := time.Now()
		require.ErrorIs(t, e.Send(ctx, d), stopped)
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

// TestErrorsHideSecrets says nothing of an address that may be a login or a token.
func TestErrorsHideSecrets(t *testing.T) {
	e, err := NewEndpoint("http://user:hunter2@collector.example/v1/traces?key=hunter3", getenv(nil))
	require.NoError(t, err)
	require.Equal(t, "http://collector.example/v1/traces", e.String())
	e.client = &answers{t: t, list: []answer{{status: 403, header: map[string]string{"Content-Type": "text/plain"}, body: "password: hunter4"}}}
	err = e.Send(t.Context(), Build(demo("run"), Source{}))
	require.ErrorContains(t, err, "Forbidden")
	require.NotContains(t, err.Error(), "hunter")
	_, err = NewEndpoint("http://user:hunter2@%zz", getenv(nil))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter")
}

func TestNewEndpoint(t *testing.T) {
	for name, test := range map[string]struct {
		address string
		vars    map[string]string
		want    string
		err     string
	}{
		"an address":                 {"http://a:4318", nil, "http://a:4318/v1/traces", ""},
		"with a slash":               {"http://a:4318/", nil, "http://a:4318/v1/traces", ""},
		"a path is kept":             {"https://a/otlp/traces", nil, "https://a/otlp/traces", ""},
		"the environment":            {"", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:4318/x/"}, "http://b:4318/x/v1/traces", ""},
		"the environment's for this": {"", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, "http://c", ""},
		"the address wins":           {"http://a", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:4318"}, "http://a/v1/traces", ""},
		"none":                       {"", nil, "", ErrNoEndpoint.Error()},
		"no scheme":                  {"", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "b:4318"}, "", "OTEL_EXPORTER_OTLP_ENDPOINT: that is no address: write http://HOST:PORT or https://HOST:PORT"},
		"gRPC":                       {"http://a", map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "", `OTEL_EXPORTER_OTLP_PROTOCOL: kplan does not speak "grpc", only http/protobuf and http/json`},
		"no time":                    {"http://a", map[string]string{"OTEL_EXPORTER_OTLP_TIMEOUT": "10s"}, "", `OTEL_EXPORTER_OTLP_TIMEOUT: "10s" is no number of milliseconds`},
		"odd packing":                {"http://a", map[string]string{"OTEL_EXPORTER_OTLP_COMPRESSION": "zstd"}, "", `OTEL_EXPORTER_OTLP_COMPRESSION: there is no "zstd", only gzip and none`},
		"no authority":               {"http://a", map[string]string{"OTEL_EXPORTER_OTLP_CERTIFICATE": "gone.pem"}, "", "OTEL_EXPORTER_OTLP_CERTIFICATE: open gone.pem: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := NewEndpoint(test.address, getenv(test.vars))
			if test.err != "" {
				require.EqualError(t, err, test.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, e.String())
		})
	}
}

// FuzzPartial reads answers of a collector, which may be anything.
func FuzzPartial(f *testing.F) {
	f.Add([]byte(partial(3, "too old")))
	f.Add([]byte{0xff})
	e := &Endpoint{}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := e.partial(b); err != nil && bytes.ContainsAny([]byte(err.Error()), "\x1b\n\x00") {
			t.Fatalf("%q", err)
		}
	})
}
