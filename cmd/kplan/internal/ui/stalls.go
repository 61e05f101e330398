package ui

import (
	"fmt"
	"regexp"
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

// Type implements pflag.Value.
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

// changing is what differs between two lines of a log that say the same: times,
// durations, ids, addresses and how often something happened. What tells causes apart
// stays: numbers of up to three digits, such as HTTP statuses and exit codes.
var changing = regexp.MustCompile(`(?i)` +
	// 2026-01-01T12:00:00.123Z, 2026/01/01 12:00:00, I0101 12:00:00.123456, 12:00:00.1
	`\b(?:\d{4}[-/]\d\d[-/]\d\d[T ]|[IWEF]\d{4} +)?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\b` +
	// 0d3f1c2e-0000-4000-8000-000000000001
	`|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b` +
	// the end of a pod's name: -7d9f8c6b5d-x2x4z
	`|-[0-9a-f]{8,10}-[0-9a-z]{5}\b` +
	// 10.96.0.1:443, 127.0.0.1
	`|\b\d+\.\d+\.\d+\.\d+(?::\d+)?\b` +
	// 1.7e+09, 12.5
	`|\b\d+\.\d+(?:e[+-]?\d+)?(?:ns|us|µs|ms|s|m|h)?\b` +
	// 1m30s, 900ms
	`|\b(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+\b` +
	// restarted 3 times
	`|\b\d+ times?\b` +
	// 0x1f, hashes and long numbers
	`|\b0x[0-9a-f]+\b|\b[0-9a-f]*\d[0-9a-f]{6,}\b|\b\d{4,}\b`)

// signature is what a line of a log has in common with others that say the same.
func signature(line string) string { return changing.ReplaceAllString(line, "#") }
