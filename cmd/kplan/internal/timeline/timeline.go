// Package timeline folds the events of a run with their history: when each step
// was in which state, what every attempt came to, how each webhook climbed its
// ladder and which requests it held. runner.Execution, which it keeps beside,
// knows only how things stand last.
//
// Its types have the JSON of the JSON report. It draws nothing, cleans no texts, reads
// no clock and knows nothing of Kubernetes. What it keeps of a run is bounded, see the
// limits.
package timeline

import (
	"time"

	"github.com/kplan-dev/kplan/runner"
)

// How much is kept. Beyond that the oldest is dropped, and counted where people
// would miss it.
const (
	// LogBytes and LogLimit bound the text and the number of the logs of one step.
	LogBytes = 64 << 10
	LogLimit = 1000
	// SpanLimit bounds the spans of one step: further ones of a step at work are
	// taken as part of the last.
	SpanLimit = 2000
	// AttemptLimit, NoteLimit and ObjectLimit bound those of one step. Further
	// objects are not listed.
	AttemptLimit = 1000
	NoteLimit    = 200
	ObjectLimit  = 1000
	// RungLimit and HoldLimit bound those of one webhook. Further requests are
	// counted, not listed.
	RungLimit = 500
	HoldLimit = 5000
	// NoticeLimit bounds the notices of the run.
	NoticeLimit = 500
)

// Timeline is the fold of a run's events with their history. The zero value is
// ready for the first event. It is not safe for concurrent use: every renderer
// keeps its own. What its methods return belongs to it and changes with the
// next event: only read it.
type Timeline struct {
	x        runner.Execution
	about    string
	run      string
	steps    []*Step
	byName   map[string]*Step
	webhooks []*Webhook
	notices  []Notice
	ended    time.Time
	now      time.Time // of the latest event, never going back
}

// Notice is something that was told of the run as a whole: that it was stopped or
// paused, an order of somebody who watched it, or a finding.
type Notice struct {
	Time time.Time   `json:"time"`
	Type runner.Type `json:"type"`
	// Step is the step that it is about, if any.
	Step string `json:"step,omitempty"`
	// Text says what, and Error what went wrong or why the run was stopped.
	Text  string `json:"message,omitempty"`
	Error string `json:"error,omitempty"`
}

// Apply folds one event. Events should come in order; a time that lies before
// that of an earlier event counts as that. Those after the last one of a run
// change nothing, unless another run begins.
func (t *Timeline) Apply(e runner.Event) {
	if e.Type == runner.TypePlan {
		t.begin(e)
		return
	}
	if t.Ended() {
		return
	}
	t.x.Apply(e)
	if e.Time.Before(t.now) {
		e.Time = t.now
	}
	t.now = e.Time
	switch e.Type {
	case runner.TypeDone:
		t.end()
	case runner.TypeCancel, runner.TypeOrder, runner.TypePaused:
		n := Notice{Time: e.Time, Type: e.Type, Step: e.Step, Text: e.Message, Error: e.Error}
		t.notices = push(t.notices, n, NoticeLimit)
	case runner.TypeFinding:
		t.finding(e)
	case runner.TypeFetch, runner.TypeGuards, runner.TypePlan:
	default:
		if s := t.byName[e.Step]; s != nil {
			t.apply(s, e)
		}
	}
}

// finding notes what may keep steps from their work: for the run, and in the log of the
// step that it concerns.
func (t *Timeline) finding(e runner.Event) {
	if e.Finding == nil {
		return
	}
	text := e.Finding.Severity + ": " + e.Message
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	t.notices = push(t.notices, Notice{Time: e.Time, Type: e.Type, Step: e.Step, Text: text}, NoticeLimit)
	if s := t.byName[e.Step]; s != nil {
		s.log(runner.Event{Seq: e.Seq, Time: e.Time, Type: runner.TypeLog, Step: e.Step, Message: "preflight: " + text})
	}
}

// apply folds an event of s.
func (t *Timeline) apply(s *Step, e runner.Event) {
	switch e.Type {
	case runner.TypeState:
		s.enter(e)
	case runner.TypeProgress, runner.TypeResult:
		s.progress(e)
	case runner.TypeLog:
		s.log(e)
	case runner.TypeHeld:
		t.hold(s, e)
	case runner.TypeReleased:
		s.release(e)
	case runner.TypeWebhook:
		t.stand(s, e)
	default: // it is in the Execution, as far as it is of steps
	}
}

func (t *Timeline) begin(e runner.Event) {
	*t = Timeline{about: e.Message, run: e.Run, now: e.Time, byName: make(map[string]*Step, len(e.Steps))}
	t.x.Apply(e)
	for _, s := range t.x.Steps() {
		step := &Step{Step: s, objects: map[string]*Object{}, Spans: []Span{{State: s.State, From: e.Time}}}
		t.steps = append(t.steps, step)
		t.byName[s.Name] = step
	}
}

// end closes what is still open.
func (t *Timeline) end() {
	t.ended = t.now
	for _, s := range t.steps {
		s.closeSpan(t.now)
		s.closeAttempt(t.now, runner.Event{State: s.State})
		s.leave(t.now)
	}
	for _, w := range t.webhooks {
		w.closeRung(t.now)
	}
}

// Execution returns the fold without history.
func (t *Timeline) Execution() *runner.Execution { return &t.x }

// About returns what the plan is run on: context and server.
func (t *Timeline) About() string { return t.about }

// Run returns the run's ID; "" when it has none, as in records of early versions.
func (t *Timeline) Run() string { return t.run }

// Start returns the time at which the run began; zero before the first event.
func (t *Timeline) Start() time.Time { return t.x.Started() }

// Ended reports whether the run has ended.
func (t *Timeline) Ended() bool { return !t.ended.IsZero() }

// End returns the time at which the run ended. While it goes on, that is now, or the
// time of the latest event if now lies before that.
func (t *Timeline) End(now time.Time) time.Time {
	if t.Ended() {
		return t.ended
	}
	if now.Before(t.now) {
		return t.now
	}
	return now
}

// Steps returns all steps in plan order.
func (t *Timeline) Steps() []*Step { return t.steps }

// Step returns the step of that name; nil when there is none.
func (t *Timeline) Step(name string) *Step { return t.byName[name] }

// Webhooks returns the webhooks that were met, in the order that they were.
func (t *Timeline) Webhooks() []*Webhook { return t.webhooks }

// Notices returns what was told of the run as a whole, such as that it was stopped.
func (t *Timeline) Notices() []Notice { return t.notices }

// push appends x to list, which keeps its last limit elements.
func push[E any](list []E, x E, limit int) []E {
	if len(list) >= limit {
		list = list[len(list)-limit+1:]
	}
	return append(list, x)
}
