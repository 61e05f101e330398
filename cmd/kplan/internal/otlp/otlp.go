// Package otlp makes a trace of a run, as OpenTelemetry has it, and sends it to a
// collector.
//
// The trace is built from the run's timeline alone, once the run is over: a recorded run
// gives the same trace when it is replayed. A span stands for the run, for each step, each
// attempt at it, each request that was held and each hook of a chart. Names of spans and
// attributes are those of OpenTelemetry's conventions for CI/CD, and begin with kplan.
// where these have none.
//
// It measures nothing itself, samples nothing and has no metrics or logs. It is no SDK: no
// code of kplan opens a span while it works.
package otlp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
)

// Source says what a trace is made for, besides the run.
type Source struct {
	// Version is that of the kplan that writes the trace, and PlanFile the plan as the
	// user named it. Both may be empty.
	Version, PlanFile string
	// Getenv returns a variable of the environment; nil is an empty environment.
	Getenv func(string) string
}

// env returns a variable without the space around it.
func (s Source) env(name string) string {
	if s.Getenv == nil {
		return ""
	}
	return strings.TrimSpace(s.Getenv(name))
}

// IDs gives the spans of one run their identifiers. They depend on nothing but the run
// and the trace that it is part of.
type IDs struct {
	run    string
	parent Parent
}

// NewIDs returns the identifiers of a run by its ID, as part of the trace of a parent.
func NewIDs(run string, parent Parent) IDs { return IDs{run, parent} }

// runKey is what tells the run from all others. Records of early versions have no ID.
func runKey(t *timeline.Timeline) string {
	if id := t.Run(); id != "" {
		return id
	}
	return t.Execution().Plan() + "@" + t.Start().UTC().Format(time.RFC3339Nano)
}

// trace returns the 16 bytes of the trace's identifier.
func (i IDs) trace() []byte {
	if i.parent.Known() {
		return i.parent.trace[:]
	}
	sum := sha256.Sum256([]byte("kplan trace\x00" + i.run))
	return sum[:16]
}

// span returns the 8 bytes of the identifier of the span at a path.
func (i IDs) span(path ...string) []byte {
	sum := sha256.Sum256([]byte("kplan span\x00" + i.run + "\x00" + strings.Join(path, "\x00")))
	return sum[:8]
}

// Traceparent returns the value of TRACEPARENT for what the first attempt at a step
// starts.
func (i IDs) Traceparent(step string) string {
	flags := "01"
	if i.parent.Known() && !i.parent.Sampled() {
		flags = "00"
	}
	return "00-" + hex.EncodeToString(i.trace()) + "-" + hex.EncodeToString(i.span("step", step, "attempt", "1")) + "-" + flags
}
