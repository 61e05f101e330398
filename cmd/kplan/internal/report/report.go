// Package report writes what a run was, once it is over: as a page to open in a
// browser, as Markdown, as the JUnit XML that CI systems read, as JSON, as a trace of
// OpenTelemetry and as metrics of Prometheus.
//
// It knows a run by its timeline only, and that of a fleet by its execution; it reads no clock. Texts that come from
// clusters and charts are made harmless for each kind.
package report

import (
	"fmt"
	"io"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/otlp"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
)

// Kind is a kind of report.
type Kind string

// The kinds.
const (
	// JUnit is the XML that CI systems read test results from.
	JUnit Kind = "junit"
	// JSON is the run with its history, for programs.
	JSON Kind = "json"
	// Markdown is a summary for people, as GitHub and GitLab show it.
	Markdown Kind = "markdown"
	// HTML is one page that needs nothing else.
	HTML Kind = "html"
	// OTLP is a trace for OpenTelemetry, which may be sent to a collector instead.
	OTLP Kind = "otlp"
	// Prometheus is metrics in the text format that node_exporter reads from files.
	Prometheus Kind = "prometheus"
)

// Kinds are all kinds, for help texts and completion.
var Kinds = []Kind{HTML, JUnit, Markdown, JSON, OTLP, Prometheus}

// Ext is how the names of files of this kind end usually, with the dot.
func (k Kind) Ext() string {
	switch k {
	case JUnit:
		return ".xml"
	case Markdown:
		return ".md"
	case OTLP:
		return ".otlp.json"
	case Prometheus:
		return ".prom"
	case JSON, HTML:
	}
	return "." + string(k)
}

// Meta is what a report says besides the run. All of it may be empty. A run that
// goes on is told of as it stood at its latest event.
type Meta struct {
	// Version is that of the kplan that writes the report.
	Version string
	// PlanFile is the plan as the user named it.
	PlanFile string
	// Record is the file of events that the run was read from; "" when kplan ran it.
	Record string
	// Fleet and Cluster are what the run is a part of; "" when it stands alone.
	Fleet, Cluster string
	// Getenv returns a variable of the environment, which says what a trace is part of and
	// what sends it; nil is an empty environment.
	Getenv func(string) string
}

// source is what a trace says besides the run.
func (m Meta) source() otlp.Source {
	return otlp.Source{Version: m.Version, PlanFile: m.PlanFile, Getenv: m.Getenv}
}

// Write writes the report of a kind; a trace as JSON. It returns the first error of writing.
func Write(w io.Writer, k Kind, t *timeline.Timeline, m Meta) error {
	r := newRun(t, m)
	switch k {
	case JUnit:
		return writeJUnit(w, r)
	case JSON:
		return writeJSON(w, r)
	case Markdown:
		_, err := w.Write(MarkdownOf(t, m, MarkdownLimit))
		return err
	case HTML:
		return writeHTML(w, r)
	case Prometheus:
		return writePrometheus(w, r)
	case OTLP:
		b, err := otlp.JSON(otlp.Build(t, m.source()))
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	}
	return fmt.Errorf("there is no report kind %q", string(k))
}
