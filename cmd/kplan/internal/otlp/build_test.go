package otlp

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/runner"
)

// recorded are the recorded runs, by the name of their file.
func recorded(t testing.TB) map[string]*timeline.Timeline {
	t.Helper()
	files, err := filepath.Glob("../ui/testdata/events/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	runs := map[string]*timeline.Timeline{}
	for _, file := range files {
		runs[filepath.Base(file)] = readRun(t, file)
	}
	return runs
}

func readRun(t testing.TB, file string) *timeline.Timeline {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	l := &timeline.Timeline{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e runner.Event
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		l.Apply(e)
	}
	require.NoError(t, lines.Err())
	return l
}

// fold returns the timeline of events a second apart.
func fold(events ...runner.Event) *timeline.Timeline {
	l := &timeline.Timeline{}
	for i, e := range events {
		e.Seq, e.Time = i+1, time.Date(2026, 1, 2, 3, 4, i, 0, time.UTC)
		l.Apply(e)
	}
	return l
}

func spansOf(d *tracepb.TracesData) []*tracepb.Span { return d.ResourceSpans[0].ScopeSpans[0].Spans }

// named are the spans with a name.
func named(d *tracepb.TracesData, name string) []*tracepb.Span {
	var all []*tracepb.Span
	for _, s := range spansOf(d) {
		if s.Name == name {
			all = append(all, s)
		}
	}
	return all
}

// value is the value of an attribute as text; "" when there is none.
func value(s *tracepb.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// checkTree checks what holds of every trace: identifiers are of their length and no two
// alike, one span has no parent within, and every other lies within its parent.
func checkTree(t *testing.T, d *tracepb.TracesData) {
	t.Helper()
	byID := map[string]*tracepb.Span{}
	for _, s := range spansOf(d) {
		require.Len(t, s.TraceId, 16)
		require.Len(t, s.SpanId, 8)
		require.NotContains(t, byID, string(s.SpanId))
		require.NotEmpty(t, s.Name)
		byID[string(s.SpanId)] = s
	}
	for i, s := range spansOf(d) {
		require.Equal(t, spansOf(d)[0].TraceId, s.TraceId)
		require.LessOrEqual(t, s.StartTimeUnixNano, s.EndTimeUnixNano)
		if i == 0 {
			require.NotContains(t, byID, string(s.ParentSpanId))
			continue
		}
		parent := byID[string(s.ParentSpanId)]
		require.NotNil(t, parent, s.Name)
		require.GreaterOrEqual(t, s.StartTimeUnixNano, parent.StartTimeUnixNano, "%s in %s", s.Name, parent.Name)
		require.LessOrEqual(t, s.EndTimeUnixNano, parent.EndTimeUnixNano, "%s in %s", s.Name, parent.Name)
		for _, e := range s.Events {
			require.GreaterOrEqual(t, e.TimeUnixNano, s.StartTimeUnixNano, e.Name)
			require.LessOrEqual(t, e.TimeUnixNano, s.EndTimeUnixNano, e.Name)
		}
	}
}

func TestRecordedRunsAreTrees(t *testing.T) {
	for name, l := range recorded(t) {
		t.Run(name, func(t *testing.T) { checkTree(t, Build(l, Source{})) })
	}
}

// TestBuildIsTheSameEachTime builds the trace of a run twice: replaying it sends the same
// spans, which collectors take as one.
func TestBuildIsTheSameEachTime(t *testing.T) {
	file := "../ui/testdata/events/failure.jsonl"
	a, err := Protobuf(Build(readRun(t, file), Source{}))
	require.NoError(t, err)
	b, err := Protobuf(Build(readRun(t, file), Source{}))
	require.NoError(t, err)
	require.Equal(t, a, b)
}

// demo is a run of two attempts, a request that was held, a hook and a ladder.
func demo(run string) *timeline.Timeline {
	w := func(rung, state, cause string) *runner.Webhook {
		return &runner.Webhook{Name: "check.demo.dev", Configuration: "demo", Kind: "validating", Service: "demo/webhook", Rung: rung, State: state, Cause: cause}
	}
	return fold(
		runner.Event{Type: runner.TypePlan, Plan: "demo", Run: run, Steps: []runner.StepInfo{{Name: "app", Kind: "helm", File: "plan.yaml", Line: 7}, {Name: "next", Kind: "apply", Needs: []string{"app"}}}},
		runner.Event{Type: runner.TypeState, Step: "app", State: runner.StateRunning, Attempt: 1, Attempts: 2},
		runner.Event{Type: runner.TypeState, Step: "app", State: runner.StateRetrying, Attempt: 1, Attempts: 2, Error: "no connection", DelaySeconds: 1},
		runner.Event{Type: runner.TypeState, Step: "app", State: runner.StateRunning, Attempt: 2, Attempts: 2},
		runner.Event{Type: runner.TypeHook, Step: "app", Object: "Job/demo/prepare", Hook: &runner.Hook{Event: "pre-install", State: runner.HookRunning}},
		runner.Event{Type: runner.TypeHook, Step: "app", Object: "Job/demo/prepare", Hook: &runner.Hook{Event: "pre-install", State: runner.HookSucceeded}},
		runner.Event{Type: runner.TypeHeld, Step: "app", Object: "Widget/demo/a", Webhook: &runner.Webhook{Name: "check.demo.dev", Service: "demo/webhook", Cause: "connection refused"}},
		runner.Event{Type: runner.TypeWebhook, Step: "app", Webhook: w("backed", "waiting", "no endpoints")},
		runner.Event{Type: runner.TypeReleased, Step: "app", Object: "Widget/demo/a", Webhook: &runner.Webhook{Name: "check.demo.dev", Sends: 3}, Error: "given up after 2s"},
		runner.Event{Type: runner.TypeState, Step: "app", State: runner.StateFailed, Attempt: 2, Attempts: 2, Error: "its webhook is away"},
		runner.Event{Type: runner.TypeState, Step: "next", State: runner.StateBlocked, Message: "app failed"},
		runner.Event{Type: runner.TypeDone, State: runner.StateFailed},
	)
}

func TestBuild(t *testing.T) {
	d := Build(demo("20260102-030400-ab12cd"), Source{Version: "v1.2.3", PlanFile: "plan.yaml"})
	checkTree(t, d)
	root := spansOf(d)[0]
	require.Equal(t, "RUN demo", root.Name)
	require.Equal(t, tracepb.Span_SPAN_KIND_SERVER, root.Kind)
	require.Equal(t, "failure", value(root, "cicd.pipeline.result"))
	require.Equal(t, "step_failed", value(root, "error.type"))
	require.Equal(t, "app: its webhook is away", root.Status.Message)

	app := named(d, "app")[0]
	require.Equal(t, root.SpanId, app.ParentSpanId)
	require.Equal(t, "20260102-030400-ab12cd/app", value(app, "cicd.pipeline.task.run.id"))
	require.Equal(t, "failure", value(app, "cicd.pipeline.task.run.result"))
	require.Equal(t, "webhook_unavailable", value(app, "error.type"))
	require.Equal(t, "plan.yaml", value(app, "code.file.path"))

	attempts := named(d, "attempt")
	require.Len(t, attempts, 2)
	require.Equal(t, "no connection", attempts[0].Status.Message)
	require.Equal(t, app.SpanId, attempts[1].ParentSpanId)

	hold := named(d, "hold check.demo.dev")[0]
	require.Equal(t, attempts[1].SpanId, hold.ParentSpanId)
	require.Equal(t, "Widget/demo/a", value(hold, "kplan.object"))
	require.Equal(t, tracepb.Status_STATUS_CODE_ERROR, hold.Status.Code)
	require.Equal(t, uint64(2*time.Second), hold.EndTimeUnixNano-hold.StartTimeUnixNano)

	hook := named(d, "hook pre-install")[0]
	require.Equal(t, attempts[1].SpanId, hook.ParentSpanId)
	require.Equal(t, tracepb.Status_STATUS_CODE_UNSET, hook.Status.GetCode())

	require.Len(t, attempts[1].Events, 1)
	require.Equal(t, "kplan.webhook.rung", attempts[1].Events[0].Name)

	next := named(d, "next")[0]
	require.Equal(t, "skip", value(next, "cicd.pipeline.task.run.result"))
	require.Equal(t, next.StartTimeUnixNano, next.EndTimeUnixNano)
}

func TestBuildWithinAParent(t *testing.T) {
	vars := map[string]string{"TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "TRACESTATE": "vendor=1"}
	d := Build(demo("run"), Source{Getenv: getenv(vars)})
	checkTree(t, d)
	root := spansOf(d)[0]
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", hex.EncodeToString(root.TraceId))
	require.Equal(t, "b7ad6b7169203331", hex.EncodeToString(root.ParentSpanId))
	require.Equal(t, "vendor=1", root.TraceState)
	require.NotZero(t, root.Flags&uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK))
	require.Zero(t, spansOf(d)[1].Flags&uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK))

	// what the first attempt starts is below that attempt
	passed := ParentOf(getenv(map[string]string{"TRACEPARENT": NewIDs("run", ParentOf(getenv(vars))).Traceparent("app")}))
	require.Equal(t, named(d, "attempt")[0].SpanId, passed.span[:])
}

func TestRunsHaveTracesOfTheirOwn(t *testing.T) {
	a, b := spansOf(Build(demo("a"), Source{}))[0], spansOf(Build(demo("b"), Source{}))[0]
	require.NotEqual(t, a.TraceId, b.TraceId)
	require.NotEqual(t, a.SpanId, b.SpanId)
	require.Empty(t, a.ParentSpanId)
}

func TestResource(t *testing.T) {
	get := func(vars map[string]string) map[string]string {
		all := map[string]string{}
		for _, a := range Build(demo("run"), Source{Version: "v1", Getenv: getenv(vars)}).ResourceSpans[0].Resource.Attributes {
			all[a.Key] = a.Value.GetStringValue()
		}
		return all
	}
	require.Equal(t, map[string]string{"service.name": "kplan", "service.version": "v1", "cicd.pipeline.name": "demo", "cicd.pipeline.run.id": "run"}, get(nil))
	all := get(map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "service.name=x, deployment.environment.name=a%2Cb ,broken,=y,bad=%zz", "OTEL_SERVICE_NAME": "installs"})
	require.Equal(t, "installs", all["service.name"])
	require.Equal(t, "a,b", all["deployment.environment.name"])
	require.Len(t, all, 5)
	require.Equal(t, "x", get(map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "service.name=x"})["service.name"])
}

// TestUnfinished writes what is known of a run whose record ends early, without a result.
func TestUnfinished(t *testing.T) {
	d := Build(fold(
		runner.Event{Type: runner.TypePlan, Plan: "demo", Steps: []runner.StepInfo{{Name: "a"}, {Name: "b"}}},
		runner.Event{Type: runner.TypeState, Step: "a", State: runner.StateRunning, Attempt: 1, Attempts: 1},
		runner.Event{Type: runner.TypeHeld, Step: "a", Object: "Widget/a", Webhook: &runner.Webhook{}},
	), Source{})
	checkTree(t, d)
	require.Len(t, spansOf(d), 4, "the run, a, its attempt and what is held; b has not begun")
	require.Empty(t, value(spansOf(d)[0], "cicd.pipeline.result"))
	require.Len(t, named(d, "hold webhook"), 1)
}

// TestTextsAreHarmless writes a run in which every text tries to be more than text: neither
// terminals nor protobuf, which takes UTF-8 alone, may stumble over it.
func TestTextsAreHarmless(t *testing.T) {
	odd := "\x1b[31mred\x1b]0;title\a \x00\u202egnp.exe \xff\xfe\nsecond line"
	d := Build(fold(
		runner.Event{Type: runner.TypePlan, Plan: odd, Run: odd, Message: odd, Steps: []runner.StepInfo{{Name: odd, Kind: odd, Cluster: odd, File: odd, Line: 1}}},
		runner.Event{Type: runner.TypeState, Step: odd, State: runner.StateRunning, Attempt: 1, Attempts: 1},
		runner.Event{Type: runner.TypeHeld, Step: odd, Object: odd, Webhook: &runner.Webhook{Name: odd, Service: odd, Cause: odd}},
		runner.Event{Type: runner.TypeHook, Step: odd, Object: odd, Error: odd, Hook: &runner.Hook{Event: odd, State: runner.HookFailed}},
		runner.Event{Type: runner.TypeState, Step: odd, State: runner.StateFailed, Error: odd},
		runner.Event{Type: runner.TypeCancel, Error: odd},
		runner.Event{Type: runner.TypeDone, State: runner.StateFailed, Error: odd},
	), Source{Version: odd, PlanFile: odd})
	b, err := Protobuf(d)
	require.NoError(t, err)
	require.NoError(t, proto.Unmarshal(b, &tracepb.TracesData{}))
	for _, s := range spansOf(d) {
		for _, text := range []string{s.Name, s.Status.GetMessage()} {
			require.NotContains(t, text, "\n")
			for _, r := range text {
				require.False(t, unicode.IsControl(r) || unicode.Is(unicode.Cf, r), "%q", text)
			}
		}
	}
}

func TestJSON(t *testing.T) {
	d := Build(demo("run"), Source{})
	b, err := JSON(d)
	require.NoError(t, err)
	require.Equal(t, 1, bytes.Count(b, []byte("\n")), "one line")
	var read struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct {
					TraceID      string `json:"traceId"`
					SpanID       string `json:"spanId"`
					ParentSpanID string `json:"parentSpanId"`
					Kind         int    `json:"kind"`
				} `json:"spans"`
			} `json:"scopeSpans"`
		} `json:"resourceSpans"`
	}
	require.NoError(t, json.Unmarshal(b, &read))
	got := read.ResourceSpans[0].ScopeSpans[0].Spans
	require.Len(t, got, len(spansOf(d)))
	for i, s := range spansOf(d) {
		require.Equal(t, hex.EncodeToString(s.TraceId), got[i].TraceID)
		require.Equal(t, hex.EncodeToString(s.SpanId), got[i].SpanID)
		require.Equal(t, hex.EncodeToString(s.ParentSpanId), got[i].ParentSpanID)
		require.Equal(t, int(s.Kind), got[i].Kind)
	}
	require.Len(t, spansOf(d)[0].TraceId, 16, "the trace itself is as it was")
}
