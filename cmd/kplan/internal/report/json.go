package report

import (
	"bytes"
	"encoding/json"
	"io"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/runner"
)

// JSONVersion is the version of the JSON report's form. Fields may be added
// within a version; none changes its meaning or goes away.
const JSONVersion = 1

// document is the JSON report. What `kplan run -o json` writes too has the same
// name and meaning here.
type document struct {
	Version        int                  `json:"version"`
	Kplan          string               `json:"kplan,omitempty"`
	PlanFile       string               `json:"plan_file,omitempty"`
	Record         string               `json:"record,omitempty"`
	On             string               `json:"on,omitempty"`
	Plan           string               `json:"plan"`
	State          runner.State         `json:"state"`
	Error          string               `json:"error,omitempty"`
	Started        time.Time            `json:"started"`
	Ended          time.Time            `json:"ended,omitzero"`
	ElapsedSeconds float64              `json:"elapsed_seconds"`
	Counts         map[runner.State]int `json:"counts"`
	CriticalPath   []string             `json:"critical_path"`
	Notices        []timeline.Notice    `json:"notices,omitempty"`
	Steps          []jsonStep           `json:"steps"`
	Webhooks       []jsonWebhook        `json:"webhooks"`
	Races          []runner.Race        `json:"races"`
	Guards         []runner.Guard       `json:"guards,omitempty"`
}

// jsonStep is a step with its history.
type jsonStep struct {
	runner.StepInfo
	State runner.State `json:"state"`
	runner.StepSummary
	Spans          []timeline.Span    `json:"spans"`
	AttemptHistory []timeline.Attempt `json:"attempt_history,omitempty"`
	Notes          []timeline.Note    `json:"notes,omitempty"`
	Objects        []*timeline.Object `json:"objects,omitempty"`
	Logs           []timeline.Log     `json:"logs,omitempty"`
	LogsDropped    int                `json:"logs_dropped,omitempty"`
}

// jsonWebhook is a webhook with what it held, over all steps.
type jsonWebhook struct {
	*timeline.Webhook
	TotalSeconds   float64          `json:"total_seconds"`
	LongestSeconds float64          `json:"longest_seconds"`
	Ladder         []timeline.Rung  `json:"ladder,omitempty"`
	Rungs          []timeline.Rung  `json:"rungs,omitempty"`
	Holds          []*timeline.Hold `json:"holds,omitempty"`
}

// writeJSON writes the run with its history. Texts are as they came; what a
// terminal might obey is escaped.
func writeJSON(w io.Writer, r *run) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(newDocument(r)); err != nil {
		return err
	}
	_, err := w.Write(data.Inert(b.Bytes()))
	return err
}

func newDocument(r *run) document {
	d := document{
		Version: JSONVersion, Kplan: r.meta.Version, PlanFile: r.meta.PlanFile, Record: r.meta.Record, On: r.About(),
		Plan: r.x.Plan(), State: r.state(), Error: r.x.Err(), Started: r.Start(),
		ElapsedSeconds: r.elapsed().Seconds(), Counts: r.x.Counts(), CriticalPath: append([]string{}, r.critical...),
		Notices: r.Notices(), Steps: []jsonStep{}, Webhooks: []jsonWebhook{}, Races: r.x.Races(), Guards: r.x.Guards(),
	}
	if r.Ended() {
		d.Ended = r.end
	}
	for _, s := range r.Steps() {
		d.Steps = append(d.Steps, jsonStep{
			StepInfo: s.StepInfo, State: s.State, StepSummary: r.x.Summarize(s.Step, r.end),
			Spans: s.Spans, AttemptHistory: s.Attempts, Notes: s.Notes, Objects: s.Objects, Logs: s.Logs, LogsDropped: s.LogsDropped,
		})
	}
	for _, l := range r.Webhooks() {
		d.Webhooks = append(d.Webhooks, jsonWebhook{
			l, l.HoldTime(r.end).Seconds(), l.LongestAt(r.end).Seconds(), l.Ladder(), l.Rungs, l.Holds,
		})
	}
	return d
}
