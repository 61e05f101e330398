package otlp

import (
	"cmp"
	"strconv"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// scope names the code that makes the spans.
const scope = "github.com/kplan-dev/kplan"

// Build returns the trace of a run. A run that is not over is told of as it stood at its
// latest event: its spans end there, and have no result.
func Build(t *timeline.Timeline, s Source) *tracepb.TracesData {
	var parent Parent
	if s.Getenv != nil {
		parent = ParentOf(s.Getenv)
	}
	b := &builder{
		t: t, x: t.Execution(), ids: NewIDs(runKey(t), parent), key: runKey(t), end: t.End(time.Time{}),
		holds: map[string][]held{}, webhooks: map[string][]*timeline.Webhook{},
	}
	b.index()
	b.run(s)
	for _, step := range t.Steps() {
		b.step(step)
	}
	return &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   s.resource(t, b.key),
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: scope, Version: text(s.Version)}, Spans: b.spans}},
	}}}
}

// builder makes the spans of one run.
type builder struct {
	t     *timeline.Timeline
	x     *runner.Execution
	ids   IDs
	key   string
	end   time.Time
	spans []*tracepb.Span

	holds    map[string][]held              // by the name of the step
	webhooks map[string][]*timeline.Webhook // those that a step told of, by its name
}

// held is a request that a webhook held.
type held struct {
	*timeline.Hold
	webhook *timeline.Webhook
}

// index finds the requests and the webhooks of each step.
func (b *builder) index() {
	for _, w := range b.t.Webhooks() {
		for _, h := range w.Holds {
			b.holds[h.Step] = append(b.holds[h.Step], held{h, w})
		}
	}
	for _, s := range b.t.Steps() {
		for _, w := range b.t.Webhooks() {
			for _, status := range s.Webhooks {
				if w.Cluster == s.Cluster && w.Name == status.Name && (status.Configuration == "" || status.Configuration == w.Configuration) {
					b.webhooks[s.Name] = append(b.webhooks[s.Name], w)
					break
				}
			}
		}
	}
}

// add adds a span. One without an end goes to that of the run.
func (b *builder) add(parent []byte, name string, from, to time.Time, path ...string) *tracepb.Span {
	if to.IsZero() {
		to = b.end
	}
	if to.Before(from) {
		to = from
	}
	s := &tracepb.Span{
		TraceId: b.ids.trace(), SpanId: b.ids.span(path...), ParentSpanId: parent, TraceState: b.ids.parent.state,
		Flags: uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK),
		Name:  text(name), Kind: tracepb.Span_SPAN_KIND_INTERNAL, StartTimeUnixNano: nano(from), EndTimeUnixNano: nano(to),
	}
	if !b.ids.parent.Known() || b.ids.parent.Sampled() {
		s.Flags |= 1
	}
	b.spans = append(b.spans, s)
	return s
}

// run adds the span of the whole run.
func (b *builder) run(s Source) {
	var parent []byte
	if b.ids.parent.Known() {
		parent = b.ids.parent.span[:]
	}
	root := b.add(parent, words.Join(" ", "RUN", b.x.Plan()), b.t.Start(), b.end, "run")
	root.Kind = tracepb.Span_SPAN_KIND_SERVER
	if b.ids.parent.Known() {
		root.Flags |= uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	a := attributes{}
	a.add("cicd.pipeline.action.name", "RUN")
	a.add("cicd.pipeline.result", result(b.x.State()))
	a.add("error.type", errorTypes[b.x.State()])
	a.add("kplan.state", string(b.x.State()))
	a.add("kplan.on", b.t.About())
	a.add("kplan.plan_file", s.PlanFile)
	a.number("kplan.steps", len(b.t.Steps()))
	root.Attributes = a.list
	root.Status = status(b.x.State(), cmp.Or(b.x.Err(), firstError(b.x)))
	for _, n := range b.t.Notices() {
		root.Events = append(root.Events, event("kplan."+string(n.Type), n.Time, "kplan.step", n.Step, "message", n.Text, "error", n.Error))
	}
}

// firstError is why the first step failed, with its name.
func firstError(x *runner.Execution) string {
	for _, s := range x.Failed() {
		return words.Join(": ", s.Name, s.Error)
	}
	return ""
}

// step adds the spans of a step: its own, and those of what it did. One that never started
// has a span without length where that was decided; one that is still to start has none.
func (b *builder) step(s *timeline.Step) {
	from := s.Started
	if from.IsZero() {
		if !s.State.Terminal() {
			return
		}
		from = s.Ended
	}
	root := b.ids.span("run")
	span := b.add(root, s.Name, from, s.Ended, "step", s.Name)
	a := attributes{}
	a.add("cicd.pipeline.task.name", s.Name)
	a.add("cicd.pipeline.task.run.id", b.key+"/"+s.Name)
	a.add("cicd.pipeline.task.run.result", result(s.State))
	a.add("error.type", errorType(s))
	a.add("kplan.step.kind", s.Kind)
	a.add("kplan.step.state", string(s.State))
	a.add("kplan.step.group", s.Group)
	a.add("kplan.cluster", s.Cluster)
	a.add("kplan.step.message", s.Message)
	a.number("kplan.step.attempts", s.Attempt)
	a.number("kplan.helm.revision", s.Revision)
	if h := s.HoldTime(b.end); h > 0 {
		a.seconds("kplan.step.hold_seconds", h)
	}
	if w := s.GroupWait(b.end); w > 0 {
		a.seconds("kplan.step.group_wait_seconds", w)
	}
	a.add("code.file.path", s.File)
	a.number("code.line.number", s.Line)
	span.Attributes = a.list
	span.Status = status(s.State, s.Error)
	attempts := b.attempts(s, span)
	for i, h := range b.holds[s.Name] {
		b.hold(s, h, attempts.at(h.From, span), strconv.Itoa(i+1))
	}
	for i, h := range s.Hooks {
		b.hook(s, h, attempts.at(h.Started, span), strconv.Itoa(i+1))
	}
	for _, w := range b.webhooks[s.Name] {
		for _, r := range w.Rungs {
			if r.From.Before(from) || !s.Ended.IsZero() && r.From.After(s.Ended) {
				continue
			}
			in := attempts.at(r.From, span)
			in.Events = append(in.Events, event("kplan.webhook.rung", r.From, "kplan.webhook.name", w.Name, "kplan.webhook.rung", r.Name,
				"kplan.webhook.state", r.State, "kplan.webhook.cause", r.Cause))
		}
	}
}

// attempts adds a span for each attempt at a step.
func (b *builder) attempts(s *timeline.Step, span *tracepb.Span) spans {
	var all spans
	for i, at := range s.Attempts {
		sub := b.add(span.SpanId, "attempt", at.From, at.To, "step", s.Name, "attempt", strconv.Itoa(i+1))
		a := attributes{}
		a.number("kplan.attempt.number", at.N)
		a.number("kplan.attempt.most", s.Step.Attempts)
		a.add("kplan.attempt.state", string(at.State))
		if at.DelaySeconds > 0 {
			a.seconds("kplan.attempt.delay_seconds", time.Duration(at.DelaySeconds*float64(time.Second)))
		}
		sub.Attributes = a.list
		sub.Status = status(at.State, at.Error)
		all = append(all, sub)
	}
	return all
}

// hold adds the span of a request that was held.
func (b *builder) hold(s *timeline.Step, h held, in *tracepb.Span, n string) {
	span := b.add(in.SpanId, "hold "+cmp.Or(h.webhook.Name, "webhook"), h.From, h.To, "step", s.Name, "hold", n)
	a := attributes{}
	a.add("kplan.object", h.Object)
	a.add("kplan.webhook.name", h.webhook.Name)
	a.add("kplan.webhook.service", h.webhook.Service)
	a.add("kplan.webhook.kind", h.webhook.Kind)
	a.add("kplan.webhook.configuration", h.webhook.Configuration)
	a.add("kplan.hold.cause", h.Cause)
	a.number("kplan.hold.sends", h.Sends)
	span.Attributes = a.list
	if h.Error != "" {
		span.Status = status(runner.StateFailed, h.Error)
	}
}

// hook adds the span of a hook of a chart.
func (b *builder) hook(s *timeline.Step, h *runner.HookRun, in *tracepb.Span, n string) {
	span := b.add(in.SpanId, "hook "+h.Event, h.Started, h.Ended, "step", s.Name, "hook", n)
	a := attributes{}
	a.add("kplan.object", h.Object)
	a.add("kplan.hook.event", h.Event)
	a.add("kplan.hook.state", string(h.State))
	a.number("kplan.hook.weight", h.Weight)
	span.Attributes = a.list
	if h.State == runner.HookFailed {
		span.Status = status(runner.StateFailed, h.Error)
	}
}

// spans are those of the attempts at one step, in order.
type spans []*tracepb.Span

// at returns the span of the attempt that was made at a time, and step when none was.
func (s spans) at(t time.Time, step *tracepb.Span) *tracepb.Span {
	in := step
	for _, span := range s {
		if span.StartTimeUnixNano <= nano(t) {
			in = span
		}
	}
	return in
}
