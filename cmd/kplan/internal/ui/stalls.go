package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/runner"
)

// Logs says which logs of pods people are shown while a run goes on. What is written
// for programs, records and reports have all.
type Logs string

// The choices. The zero value is LogsTrouble.
const (
	// LogsNone shows none.
	LogsNone Logs = "none"
	// LogsTrouble shows those of what has not moved for a while, of attempts that
	// failed, and at the end those of steps that failed.
	LogsTrouble Logs = "trouble"
	// LogsAll shows all that is read.
	LogsAll Logs = "all"
)

// LogsNames are the names of all choices.
var LogsNames = []string{string(LogsNone), string(LogsTrouble), string(LogsAll)}

// Set implements pflag.Value, as String and Type do: Logs is the value of a flag.
func (l *Logs) Set(s string) error {
	if !slices.Contains(LogsNames, s) {
		return fmt.Errorf("logs cannot be shown %q, only %s", s, strings.Join(LogsNames, ", "))
	}
	*l = Logs(s)
	return nil
}

func (l *Logs) String() string { return string(*l) }

// Type returns what help has for the value.
func (l *Logs) Type() string { return "string" }

// StallAfter is how long what is waited for may stay as it is until it is in trouble:
// what starts well rarely stays so long.
const StallAfter = 30 * time.Second

// Stalls tells what of a run is in trouble: what is waited for and has not moved for a
// while. It is a fold of events, so that a replay shows what the run did. The zero
// value is ready.
type Stalls struct {
	steps map[string]map[string]*awaited
}

// awaited is an object that is waited for.
type awaited struct {
	since time.Time // when it came to be as it is
	// seen is how it has been, without what changes by itself. A pod that crashes and
	// is started anew comes and goes, and does not move.
	seen map[string]bool
}

// Observe takes an event into account. It tells whether the event moved what its step
// waits for, and which object: "" for an attempt that ended, which moves all.
func (s *Stalls) Observe(e runner.Event) (object string, moved bool) {
	switch e.Type {
	case runner.TypeState:
		if e.State == runner.StateRunning || e.State == runner.StateHolding {
			return "", false // it is within an attempt, or its beginning
		}
		delete(s.steps, e.Step)
		return "", true
	case runner.TypeProgress:
		if e.Object == "" {
			return "", false
		}
		return e.Object, s.see(e, e.Object, e.Message)
	case runner.TypeLog:
		s.of(e.Step, e.Of, e.Time)
		return "", false
	case runner.TypeHeld, runner.TypeWebhook, runner.TypeReleased:
		if e.Webhook == nil || e.Webhook.Service == "" {
			return "", false
		}
		w, object := e.Webhook, "Service/"+e.Webhook.Service
		if e.Type == runner.TypeReleased { // it answers, or nobody waits any more
			delete(s.steps[e.Step], object)
			return object, true
		}
		return object, s.see(e, object, strings.Join([]string{w.Rung, w.State, w.Cause}, " "))
	default:
		return "", false
	}
}

// see notes how an object is, and reports whether it was never so before.
func (s *Stalls) see(e runner.Event, object, text string) bool {
	o := s.of(e.Step, object, e.Time)
	if text = signature(text); o.seen[text] {
		return false
	}
	o.seen[text], o.since = true, e.Time
	s.of(e.Step, "", e.Time).since = e.Time
	return true
}

// of is an object of a step, known from now on.
func (s *Stalls) of(step, object string, now time.Time) *awaited {
	if s.steps == nil {
		s.steps = map[string]map[string]*awaited{}
	}
	if s.steps[step] == nil {
		s.steps[step] = map[string]*awaited{}
	}
	o := s.steps[step][object]
	if o == nil {
		o = &awaited{since: now, seen: map[string]bool{}}
		s.steps[step][object] = o
	}
	return o
}

// Stalled reports whether an object of a step has not moved for a while. That of "" has
// moved when any did: logs of older records do not say whose they are.
func (s *Stalls) Stalled(step, object string, now time.Time) bool {
	o := s.steps[step][object]
	return o != nil && now.Sub(o.since) >= StallAfter
}
