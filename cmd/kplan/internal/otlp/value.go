package otlp

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// textLimit bounds a text, in bytes. What stores traces cuts longer ones.
const textLimit = 4096

// text makes a text harmless that came from a cluster or a chart, and bounds it.
func text(s string) string {
	rest := 0
	if len(s) > textLimit {
		s, rest = s[:textLimit], len(s)-textLimit
	}
	s = words.Line(s)
	if rest > 0 {
		return fmt.Sprintf("%s … (%d bytes left out)", s, rest)
	}
	return s
}

// nano is a time as OTLP has it.
func nano(t time.Time) uint64 { return uint64(max(t.UnixNano(), 0)) }

// attributes collects those of one span. Empty values are left out.
type attributes struct{ list []*commonpb.KeyValue }

func (a *attributes) add(key, value string) {
	if value != "" {
		a.set(key, &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: text(value)}})
	}
}

func (a *attributes) number(key string, n int) {
	if n != 0 {
		a.set(key, &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(n)}})
	}
}

func (a *attributes) seconds(key string, d time.Duration) {
	a.set(key, &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: d.Seconds()}})
}

func (a *attributes) set(key string, v *commonpb.AnyValue) {
	a.list = append(a.list, &commonpb.KeyValue{Key: key, Value: v})
}

// event is something that happened within a span. pairs are names and values.
func event(name string, at time.Time, pairs ...string) *tracepb.Span_Event {
	a := attributes{}
	for i := 0; i+1 < len(pairs); i += 2 {
		a.add(pairs[i], pairs[i+1])
	}
	return &tracepb.Span_Event{Name: text(name), TimeUnixNano: nano(at), Attributes: a.list}
}

// result is what OpenTelemetry calls the state that something ended in; "" while it has
// not ended.
func result(s runner.State) string {
	switch s {
	case runner.StateSucceeded, runner.StateUnchanged:
		return "success"
	case runner.StateFailed:
		return "failure"
	case runner.StateSkipped, runner.StateBlocked:
		return "skip"
	case runner.StateCancelled:
		return "cancellation"
	case runner.StatePending, runner.StateRunning, runner.StateHolding, runner.StateRetrying:
	}
	return ""
}

// errorTypes are the values of error.type for a run.
var errorTypes = map[runner.State]string{runner.StateFailed: "step_failed", runner.StateCancelled: "cancelled"}

// errorType is the value of error.type for a step; "" when it did not fail.
func errorType(s *timeline.Step) string {
	if s.State != runner.StateFailed {
		return ""
	}
	for _, h := range s.Holds {
		if h.Failed > 0 {
			return "webhook_unavailable"
		}
	}
	return "_OTHER"
}

// status says whether something went wrong. OpenTelemetry leaves success unset.
func status(s runner.State, cause string) *tracepb.Status {
	switch s {
	case runner.StateFailed, runner.StateRetrying, runner.StateCancelled:
		return &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: text(cause)}
	case runner.StateSucceeded, runner.StateUnchanged, runner.StateSkipped, runner.StateBlocked,
		runner.StatePending, runner.StateRunning, runner.StateHolding:
	}
	return &tracepb.Status{}
}

// resource says what made the spans: kplan, and the run as OpenTelemetry's entity
// cicd.pipeline.run. OTEL_SERVICE_NAME wins over OTEL_RESOURCE_ATTRIBUTES.
func (s Source) resource(t *timeline.Timeline, run string) *resourcepb.Resource {
	values := [][2]string{
		{"service.name", "kplan"},
		{"service.version", s.Version},
		{"cicd.pipeline.name", t.Execution().Plan()},
		{"cicd.pipeline.run.id", run},
	}
	set := func(key, value string) {
		for i := range values {
			if values[i][0] == key {
				values[i][1] = value
				return
			}
		}
		values = append(values, [2]string{key, value})
	}
	for _, p := range pairs(s.env("OTEL_RESOURCE_ATTRIBUTES")) {
		set(p[0], p[1])
	}
	if name := s.env("OTEL_SERVICE_NAME"); name != "" {
		set("service.name", name)
	}
	a := attributes{}
	for _, v := range values {
		a.add(v[0], v[1])
	}
	return &resourcepb.Resource{Attributes: a.list}
}

// pairs reads key=value,key=value with values that may be escaped as in URLs. What is not of
// that form is passed over.
func pairs(s string) [][2]string {
	var all [][2]string
	for part := range strings.SplitSeq(s, ",") {
		key, value, ok := strings.Cut(part, "=")
		key = strings.TrimSpace(key)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if ok && key != "" && err == nil {
			all = append(all, [2]string{key, value})
		}
	}
	return all
}
