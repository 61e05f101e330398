package report

import (
	"bytes"
	"encoding/json"
	"io"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
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
	Notices        []jsonNotice         `json:"notices,omitempty"`
	Steps          []jsonStep           `json:"steps"`
	Webhooks       []jsonWebhook        `json:"webhooks"`
	Guards         []runner.Guard       `json:"guards,omitempty"`
}

type jsonNotice struct {
	Time    time.Time   `json:"time"`
	Type    runner.Type `json:"type"`
	Step    string      `json:"step,omitempty"`
	Message string      `json:"message,omitempty"`
	Error   string      `json:"error,omitempty"`
}

type jsonStep struct {
	runner.StepInfo
	State           runner.State   `json:"state"`
	BlockedBy       []string       `json:"blocked_by,omitempty"`
	Attempt         int            `json:"attempt,omitempty"`
	Attempts        int            `json:"attempts,omitempty"`
	Started         time.Time      `json:"started,omitzero"`
	Ended           time.Time      `json:"ended,omitzero"`
	ElapsedSeconds  float64        `json:"elapsed_seconds"`
	Revision        int            `json:"revision,omitempty"`
	HoldTimeSeconds float64        `json:"hold_time_seconds,omitempty"`
	Holds           []jsonSum      `json:"holds,omitempty"`
	Outputs         map[string]any `json:"outputs,omitempty"`
	Message         string         `json:"message,omitempty"`
	Error           string         `json:"error,omitempty"`
	Hint            string         `json:"hint,omitempty"`

	Spans          []jsonSpan    `json:"spans"`
	AttemptHistory []jsonAttempt `json:"attempt_history,omitempty"`
	Notes          []jsonNote    `json:"notes,omitempty"`
	Objects        []jsonObject  `json:"objects,omitempty"`
	Logs           []jsonLog     `json:"logs,omitempty"`
	LogsDropped    int           `json:"logs_dropped,omitempty"`
}

// jsonSum sums up what one webhook held of a step.
type jsonSum struct {
	Webhook        string  `json:"webhook"`
	Service        string  `json:"service,omitempty"`
	Cause          string  `json:"cause,omitempty"`
	Explanation    string  `json:"explanation,omitempty"`
	Requests       int     `json:"requests"`
	Failed         int     `json:"failed,omitempty"`
	Sends          int     `json:"sends,omitempty"`
	TotalSeconds   float64 `json:"total_seconds"`
	LongestSeconds float64 `json:"longest_seconds"`
}

type jsonSpan struct {
	State   runner.State `json:"state"`
	From    time.Time    `json:"from"`
	To      time.Time    `json:"to,omitzero"`
	Attempt int          `json:"attempt,omitempty"`
}

type jsonAttempt struct {
	N            int          `json:"n"`
	From         time.Time    `json:"from"`
	To           time.Time    `json:"to,omitzero"`
	State        runner.State `json:"state,omitempty"`
	Error        string       `json:"error,omitempty"`
	Hint         string       `json:"hint,omitempty"`
	DelaySeconds float64      `json:"delay_seconds,omitempty"`
}

type jsonNote struct {
	Time    time.Time `json:"time"`
	Message string    `json:"message"`
}

type jsonObject struct {
	Object  string    `json:"object"`
	Message string    `json:"message,omitempty"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
}

type jsonLog struct {
	Time    time.Time `json:"time"`
	Object  string    `json:"object,omitempty"`
	Of      string    `json:"of,omitempty"`
	Message string    `json:"message"`
}

type jsonWebhook struct {
	Cluster        string     `json:"cluster,omitempty"`
	Kind           string     `json:"kind,omitempty"`
	Configuration  string     `json:"configuration,omitempty"`
	Name           string     `json:"name"`
	Service        string     `json:"service,omitempty"`
	Owner          string     `json:"owner,omitempty"`
	Requests       int        `json:"requests"`
	Waiting        int        `json:"waiting,omitempty"`
	Failed         int        `json:"failed,omitempty"`
	Sends          int        `json:"sends,omitempty"`
	TotalSeconds   float64    `json:"total_seconds"`
	LongestSeconds float64    `json:"longest_seconds"`
	Ladder         []jsonRung `json:"ladder,omitempty"`
	Rungs          []jsonRung `json:"rungs,omitempty"`
	Holds          []jsonHold `json:"holds,omitempty"`
}

type jsonRung struct {
	Name        string    `json:"rung"`
	State       string    `json:"state,omitempty"`
	Cause       string    `json:"cause,omitempty"`
	Explanation string    `json:"explanation,omitempty"`
	From        time.Time `json:"from,omitzero"`
	To          time.Time `json:"to,omitzero"`
	Found       bool      `json:"found,omitempty"`
}

type jsonHold struct {
	Step        string    `json:"step"`
	Object      string    `json:"object,omitempty"`
	Cause       string    `json:"cause,omitempty"`
	Explanation string    `json:"explanation,omitempty"`
	From        time.Time `json:"from"`
	To          time.Time `json:"to,omitzero"`
	Sends       int       `json:"sends,omitempty"`
	Error       string    `json:"error,omitempty"`
}

// json writes the run with its history. Texts are as they came; what a terminal
// might obey is escaped.
func (r *run) json(w io.Writer) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r.document()); err != nil {
		return err
	}
	_, err := w.Write(ui.InertJSON(b.Bytes()))
	return err
}

func (r *run) document() document {
	d := document{
		Version: JSONVersion, Kplan: r.meta.Version, PlanFile: r.meta.PlanFile, Record: r.meta.Record, On: r.About(),
		Plan: r.x.Plan(), State: r.state(), Error: r.x.Err(), Started: r.Start(),
		ElapsedSeconds: r.elapsed().Seconds(), Counts: r.x.Counts(), CriticalPath: append([]string{}, r.critical...),
		Steps: []jsonStep{}, Webhooks: []jsonWebhook{}, Guards: r.x.Guards(),
	}
	if r.Ended() {
		d.Ended = r.end
	}
	for _, n := range r.Notices() {
		d.Notices = append(d.Notices, jsonNotice{n.Time, n.Type, n.Step, n.Text, n.Error})
	}
	for _, s := range r.Steps() {
		d.Steps = append(d.Steps, r.jsonStep(s))
	}
	for _, l := range r.Webhooks() {
		d.Webhooks = append(d.Webhooks, r.jsonWebhook(l))
	}
	return d
}

func (r *run) jsonStep(s *timeline.Step) jsonStep {
	out := jsonStep{
		StepInfo: s.StepInfo, State: s.State, Attempt: s.Attempt, Attempts: s.Step.Attempts, Started: s.Started, Ended: s.Ended,
		ElapsedSeconds: s.Elapsed(r.end).Seconds(), Revision: s.Revision, HoldTimeSeconds: s.HoldTime(r.end).Seconds(),
		Outputs: s.Outputs, Message: s.Message, Error: s.Error, Hint: s.Hint, LogsDropped: s.LogsDropped,
	}
	if s.State == runner.StateBlocked {
		out.BlockedBy = r.x.WhyBlocked(s.Name)
	}
	for _, h := range s.HoldsAt(r.end) {
		out.Holds = append(out.Holds, jsonSum{
			Webhook: h.Webhook, Service: h.Service, Cause: h.Cause, Explanation: h.Explanation, Requests: h.Requests, Failed: h.Failed, Sends: h.Sends,
			TotalSeconds: h.Total.Seconds(), LongestSeconds: h.Longest.Seconds(),
		})
	}
	for _, x := range s.Spans {
		out.Spans = append(out.Spans, jsonSpan(x))
	}
	for _, a := range s.Attempts {
		out.AttemptHistory = append(out.AttemptHistory, jsonAttempt{a.N, a.From, a.To, a.State, a.Error, a.Hint, a.Delay.Seconds()})
	}
	for _, n := range s.Notes {
		out.Notes = append(out.Notes, jsonNote{n.Time, n.Text})
	}
	for _, o := range s.Objects {
		out.Objects = append(out.Objects, jsonObject{o.Name, o.Text, o.First, o.Last})
	}
	for _, l := range s.Logs {
		out.Logs = append(out.Logs, jsonLog{l.Time, l.Object, l.Of, l.Text})
	}
	return out
}

func (r *run) jsonWebhook(l *timeline.Webhook) jsonWebhook {
	out := jsonWebhook{
		Cluster: l.Cluster, Kind: l.Kind, Configuration: l.Configuration, Name: l.Name, Service: l.Service, Owner: l.Owner,
		Requests: l.Requests, Waiting: l.Held, Failed: l.Failed, Sends: l.Sends,
		TotalSeconds: l.HoldTime(r.end).Seconds(), LongestSeconds: l.LongestAt(r.end).Seconds(),
	}
	for _, rung := range l.Ladder() {
		out.Ladder = append(out.Ladder, jsonRung(rung))
	}
	for _, rung := range l.Rungs {
		out.Rungs = append(out.Rungs, jsonRung(rung))
	}
	for _, h := range l.Holds {
		out.Holds = append(out.Holds, jsonHold{h.Step, h.Object, h.Cause, h.Explanation, h.From, h.To, h.Sends, h.Error})
	}
	return out
}
