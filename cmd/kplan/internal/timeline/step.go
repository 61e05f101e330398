package timeline

import (
	"strings"
	"time"

	"github.com/kplan-dev/kplan/runner"
)

// Step is a step with its history.
type Step struct {
	*runner.Step
	// Spans are the states that the step was in, in order. That of a state which
	// ends the step has no length.
	Spans []Span
	// Attempts are those that were made; how many there can be at most is
	// Step.Attempts.
	Attempts []Attempt
	// Logs are the last logs of the step; LogsDropped counts those that were
	// dropped before.
	Logs        []Log
	LogsDropped int
	// Objects are those that the step told of, as they were last told to be, in
	// the order they were first told of.
	Objects []*Object
	// Notes are what the step was at, as far as it is not about one object.
	Notes []Note

	logBytes int
	objects  map[string]*Object
	open     []*Hold    // requests that are held now
	webhooks []*Webhook // those that the step tells of now
}

// Span is a time in one state.
type Span struct {
	State runner.State `json:"state"`
	// From is when the state was entered, To when it was left: zero while it lasts.
	From time.Time `json:"from"`
	To   time.Time `json:"to,omitzero"`
	// Attempt is the one that was made or awaited. It is 0 before the first.
	Attempt int `json:"attempt,omitempty"`
}

// Attempt is one attempt at the work of a step.
type Attempt struct {
	// N counts from 1.
	N int `json:"n"`
	// From is when it began, To when it ended: zero while it lasts.
	From time.Time `json:"from"`
	To   time.Time `json:"to,omitzero"`
	// State is what it came to: retrying says that it failed and another one
	// followed or was to follow. It is "" while the attempt lasts.
	State runner.State `json:"state,omitempty"`
	// Error and Hint are set when it failed.
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
	// DelaySeconds is how long the next attempt waits at most, after retrying.
	DelaySeconds float64 `json:"delay_seconds,omitempty"`
}

// Log is text of a step's log.
type Log struct {
	Time time.Time `json:"time"`
	// Object is what wrote it, such as "Pod/demo/web-1 container operator". "" is
	// kplan itself.
	Object string `json:"object,omitempty"`
	// Of is the object that is waited for, whose pod wrote it; see runner.Event.
	Of string `json:"of,omitempty"`
	// Text may have several lines.
	Text string `json:"message"`
}

// Object is an object that a step told of.
type Object struct {
	// Name is as the step gives it: Kind/namespace/name.
	Name string `json:"object"`
	// Text is how it was last told to be.
	Text string `json:"message,omitempty"`
	// First is when it was first told of, and Last when it came to be as Text says.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// Note is what a step said it was at.
type Note struct {
	Time time.Time `json:"time"`
	Text string    `json:"message"`
}

func (s *Step) enter(e runner.Event) {
	last := &s.Spans[len(s.Spans)-1]
	switch {
	case last.State == e.State && last.To.IsZero(): // it is told again
	case len(s.Spans) >= SpanLimit && e.State.Active() && last.To.IsZero():
	default:
		s.closeSpan(e.Time)
		next := Span{State: e.State, From: e.Time, Attempt: s.Attempt}
		if e.State.Terminal() {
			next.To = e.Time
		}
		s.Spans = push(s.Spans, next, SpanLimit)
	}
	if e.State.Active() {
		s.openAttempt(e)
		return
	}
	s.closeAttempt(e.Time, e)
	s.leave(e.Time)
}

func (s *Step) closeSpan(now time.Time) {
	if last := &s.Spans[len(s.Spans)-1]; last.To.IsZero() {
		last.To = now
	}
}

// openAttempt notes that an attempt began, unless it is at work already.
func (s *Step) openAttempt(e runner.Event) {
	if i := len(s.Attempts) - 1; i >= 0 && s.Attempts[i].To.IsZero() {
		if e.Attempt <= s.Attempts[i].N {
			return
		}
		s.closeAttempt(e.Time, runner.Event{State: runner.StateRetrying})
	}
	s.Attempts = push(s.Attempts, Attempt{N: max(e.Attempt, 1), From: e.Time}, AttemptLimit)
}

// closeAttempt notes how the attempt at work ended, if there is one.
func (s *Step) closeAttempt(now time.Time, e runner.Event) {
	i := len(s.Attempts) - 1
	if i < 0 || !s.Attempts[i].To.IsZero() {
		return
	}
	a := &s.Attempts[i]
	a.To, a.State, a.Error, a.Hint = now, e.State, e.Error, e.Hint
	a.DelaySeconds = e.DelaySeconds
}

// leave ends what only goes on while the step is at work.
func (s *Step) leave(now time.Time) {
	for _, h := range s.open {
		h.end(now, 0, "given up")
	}
	s.open = nil
	for _, w := range s.webhooks {
		w.unwatch(now)
	}
	s.webhooks = nil
}

// progress notes what became of an object, or what the step is at.
func (s *Step) progress(e runner.Event) {
	if e.Object == "" || e.Type == runner.TypeResult {
		if n := len(s.Notes); e.Message != "" && (n == 0 || s.Notes[n-1].Text != e.Message) {
			s.Notes = push(s.Notes, Note{e.Time, e.Message}, NoteLimit)
		}
		return
	}
	text := strings.TrimPrefix(e.Message, e.Object+": ")
	o := s.objects[e.Object]
	switch {
	case o == nil && len(s.Objects) >= ObjectLimit:
		return
	case o == nil:
		o = &Object{Name: e.Object, Text: text, First: e.Time, Last: e.Time}
		s.objects[e.Object] = o
		s.Objects = append(s.Objects, o)
	case o.Text != text:
		o.Text, o.Last = text, e.Time
	}
}

// log keeps text of the step's log. Of one that is too long the end is kept:
// it tells what went wrong.
func (s *Step) log(e runner.Event) {
	text := e.Message
	if cut := len(text) - LogBytes; cut > 0 {
		text = "… " + strings.ToValidUTF8(text[cut:], "")
	}
	s.Logs = append(s.Logs, Log{e.Time, e.Object, e.Of, text})
	s.logBytes += len(text)
	for len(s.Logs) > 1 && (len(s.Logs) > LogLimit || s.logBytes > LogBytes) {
		s.logBytes -= len(s.Logs[0].Text)
		s.Logs = s.Logs[1:]
		s.LogsDropped++
	}
}
