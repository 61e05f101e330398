package main

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector is a collector of traces, which answers with a status.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans map[string]*tracepb.Span // by name
}

// newCollector starts a collector for the test.
func newCollector(t *testing.T, status int) *collector {
	t.Helper()
	c := &collector{spans: map[string]*tracepb.Span{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		b, err := io.ReadAll(r.Body)
		d := &tracepb.TracesData{}
		if err != nil || proto.Unmarshal(b, d) != nil || r.URL.Path != "/v1/traces" {
			http.Error(w, "not OTLP", http.StatusBadRequest)
			return
		}
		for _, span := range d.ResourceSpans[0].ScopeSpans[0].Spans {
			c.spans[span.Name] = span
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) span(t *testing.T, name string) *tracepb.Span {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Contains(t, c.spans, name)
	return c.spans[name]
}

// TestHoldTraces sends a trace of a hold, as part of that of its caller. What the command
// traces is below the attempt that runs it.
func TestHoldTraces(t *testing.T) {
	c := newCollector(t, http.StatusOK)
	h := hold(t, `echo "$TRACEPARENT $TRACESTATE"; exit 3`, "--report", "otlp="+c.URL)
	h.cmd.Env = append(h.cmd.Env, "TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "TRACESTATE=vendor=1")
	passed := strings.Fields(h.start())
	require.Equal(t, 3, h.code())
	require.Empty(t, h.stderr.String())

	root, attempt := c.span(t, "RUN hold"), c.span(t, "attempt")
	require.Equal(t, "b7ad6b7169203331", hex.EncodeToString(root.ParentSpanId))
	require.Equal(t, []string{"00-0af7651916cd43dd8448eb211c80319c-" + hex.EncodeToString(attempt.SpanId) + "-01", "vendor=1"}, passed)
	require.Equal(t, c.span(t, "sh").SpanId, attempt.ParentSpanId)
}

// TestHoldTracesInVain tells that nobody took the trace, and ends as the command did.
func TestHoldTracesInVain(t *testing.T) {
	c := newCollector(t, http.StatusForbidden)
	h := hold(t, "echo done; exit 3", "--report", "otlp")
	h.cmd.Env = append(h.cmd.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL)
	require.Equal(t, "done", h.start())
	require.Equal(t, 3, h.code())
	require.Equal(t, "warning: --report otlp="+c.URL+"/v1/traces: the collector answers 403 Forbidden\n", h.stderr.String())
}

// TestHoldTraceNotSampled leaves alone what its caller does not trace.
func TestHoldTraceNotSampled(t *testing.T) {
	c := newCollector(t, http.StatusOK)
	h := hold(t, `echo "$TRACEPARENT"`, "--report", "otlp="+c.URL)
	h.cmd.Env = append(h.cmd.Env, "TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
	require.Regexp(t, "^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-00$", h.start())
	require.Zero(t, h.code())
	require.Empty(t, c.spans)
}

// TestReplayTraces sends the trace of a recorded run, and fails when nobody takes it: there
// is nothing else to do.
func TestReplayTraces(t *testing.T) {
	record := filepath.Join("internal", "ui", "testdata", "events", "lab_race.jsonl")
	c := newCollector(t, http.StatusOK)
	out, err := command(t, "replay", record, "--report", "otlp="+c.URL).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Empty(t, out)
	require.Equal(t, c.span(t, "RUN race").SpanId, c.span(t, "race").ParentSpanId)
	hold := c.span(t, "hold mutate.race.lab.kplan.dev")
	require.Greater(t, hold.EndTimeUnixNano, hold.StartTimeUnixNano)

	c = newCollector(t, http.StatusForbidden)
	out, err = command(t, "replay", record, "--report", "otlp="+c.URL).CombinedOutput()
	require.Error(t, err)
	require.Equal(t, "error: --report otlp="+c.URL+"/v1/traces: the collector answers 403 Forbidden\n", string(out))
}

// TestTracesOfAFileAndOfACollectorAreTheSame writes protobuf into a file whose name does not
// say otherwise.
func TestTracesOfAFileAndOfACollectorAreTheSame(t *testing.T) {
	record, file := filepath.Join("internal", "ui", "testdata", "events", "lab_race.jsonl"), filepath.Join(t.TempDir(), "trace.pb")
	c := newCollector(t, http.StatusOK)
	out, err := command(t, "replay", record, "--report", "otlp="+c.URL, "--report", "otlp="+file).CombinedOutput()
	require.NoError(t, err, string(out))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	d := &tracepb.TracesData{}
	require.NoError(t, proto.Unmarshal(b, d))
	for _, span := range d.ResourceSpans[0].ScopeSpans[0].Spans {
		if span.Name == "RUN race" {
			require.True(t, proto.Equal(span, c.span(t, span.Name)))
			return
		}
	}
	t.Fatal("the run is not in the file")
}
