package report

import (
	"bufio"
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
	"html/template"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/runner"
)

// How much of a run the page has: a browser shall open it at once, and somebody
// read it. The record of a run has all.
const (
	htmlFailureLog = 64 << 10
	htmlLog        = 8 << 10
	htmlLogs       = 6 << 20 // of all steps
	htmlObjects    = 200     // of a step
	htmlHolds      = 300     // of a webhook
	htmlHoldRows   = 8       // of a webhook that are drawn one by one
	htmlBars       = 400     // in one row
	htmlFailures   = 20      // failed steps that are told of first
	htmlLogEnd     = 15      // lines of the log of each of them
)

var (
	//go:embed page.html.tmpl
	pageText string
	//go:embed page.css
	pageStyle string
	//go:embed page.js
	pageScript string

	pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
		"join": strings.Join, "count": ui.Count,
	}).Parse(pageText))
)

// htmlPage is what the page's template draws: texts that were cleaned, and
// numbers for styles. html/template escapes them for where they stand.
type htmlPage struct {
	Style  template.CSS
	Script template.JS
	// ScriptHash lets this script run and no other.
	ScriptHash string

	Title, Plan, Glyph, On, Elapsed, Stopped, StoppedAt, Unfinished string
	State                                                           runner.State
	Start, End                                                      moment
	Counts                                                          []htmlCount
	Failures                                                        []*htmlStep
	MoreFailures                                                    int
	Critical                                                        []htmlLink
	Axis                                                            axis
	Rows                                                            []htmlRow
	Legend                                                          []htmlCount
	Lanes                                                           []htmlLane
	Graph                                                           *htmlGraph
	Steps                                                           []*htmlStep
	Notices                                                         []htmlNotice
	Environment                                                     []pair
	Many                                                            bool // clusters
}

// moment is a time, for people and for programs.
type moment struct{ Text, Machine string }

type htmlCount struct {
	State runner.State
	Glyph string
	N     int
}

// htmlLink leads to a step.
type htmlLink struct {
	Index int
	Name  string
	Text  string // beside the name
}

type htmlNotice struct{ At, Word, Text string }

// htmlStep is a step with its details.
type htmlStep struct {
	Index                                   int
	Name, Kind, Cluster, Group, Tags, Glyph string
	State                                   runner.State
	Critical, Finally                       bool
	Attempt, Took, Held, Note, Revision     string
	Started, Ended, Timeout, Where          string
	Cause, Hint                             string
	Ladders                                 []htmlLadder
	Attempts                                []htmlAttempt
	Needs, Blocks                           []htmlLink
	MoreBlocks                              int
	Guards                                  []string
	Notes                                   []htmlNotice
	Objects                                 []htmlObject
	MoreObjects                             int
	Holds                                   []htmlSum
	Outputs                                 []pair
	// Log is the log of the step, LogEnd its last lines.
	Log, LogEnd string
}

type htmlLadder struct {
	Name, Service string
	Rungs         []htmlRung
}

// htmlRung is a rung of a ladder. When says since when it stands so.
type htmlRung struct{ Name, State, Glyph, Cause, Words, When string }

type htmlAttempt struct {
	N                             int
	From, Took, Came, Cause, Hint string
	State                         runner.State
}

type htmlObject struct{ Name, Text, At string }

type htmlSum struct{ Webhook, Requests, Longest, Total, Cause, Words string }

// html writes the page.
func (r *run) html(w io.Writer) error {
	b := bufio.NewWriter(w)
	if err := pageTemplate.Execute(b, r.page()); err != nil {
		return err
	}
	return b.Flush()
}

func (r *run) page() *htmlPage {
	sum := sha256.Sum256([]byte(pageScript))
	p := &htmlPage{
		Style: template.CSS(pageStyle), Script: template.JS(pageScript), //nolint:gosec // they are ours
		ScriptHash: "sha256-" + base64.StdEncoding.EncodeToString(sum[:]),
		Plan:       or(line(r.x.Plan()), "plan"), State: r.state(), Glyph: glyphs[r.state()], On: line(r.About()),
		Elapsed: ui.Brief(r.elapsed()), Stopped: clean(r.x.Err()), Start: at(r.Start()), End: at(r.end),
		Axis: r.axis(), Many: r.many,
	}
	p.Title = p.Plan + ": " + string(p.State)
	if !r.Ended() {
		p.Unfinished = "This is a run that was not over: it shows how far it had come."
	}
	p.Counts = r.counts()
	links := r.links()
	logs := r.logs()
	for i, s := range r.Steps() {
		h := r.htmlStep(i, s, links)
		h.Log = logs[i]
		p.Steps = append(p.Steps, h)
		p.Rows = append(p.Rows, r.row(h, s))
		if s.State != runner.StateFailed {
			continue
		}
		if len(p.Failures) < htmlFailures {
			h.LogEnd = lastLines(h.Log, htmlLogEnd)
			p.Failures = append(p.Failures, h)
		} else {
			p.MoreFailures++
		}
	}
	for _, name := range r.critical {
		if s := r.Step(name); s != nil {
			l := links[name]
			l.Text = r.took(s)
			p.Critical = append(p.Critical, l)
		}
	}
	p.Legend = r.legend()
	for _, l := range r.Webhooks() {
		p.Lanes = append(p.Lanes, r.lane(l, links))
	}
	p.Graph = r.graph(p.Steps)
	for _, n := range r.Notices() {
		if n.Type == runner.TypeCancel {
			p.StoppedAt = r.offset(n.Time)
			continue
		}
		p.Notices = append(p.Notices, htmlNotice{r.offset(n.Time), string(n.Type), line(joined(": ", n.Step, n.Text, n.Error))})
	}
	p.Environment = r.environment()
	return p
}

func (r *run) counts() []htmlCount {
	var all []htmlCount
	n := r.x.Counts()
	for _, s := range runner.States {
		if n[s] > 0 {
			all = append(all, htmlCount{s, glyphs[s], n[s]})
		}
	}
	return all
}

// links finds steps by their names.
func (r *run) links() map[string]htmlLink {
	links := map[string]htmlLink{}
	for i, s := range r.Steps() {
		links[s.Name] = htmlLink{Index: i, Name: line(s.Name)}
	}
	return links
}

// logs are the logs of all steps, by index. Those of failed steps come whole
// before others get what room is left.
func (r *run) logs() map[int]string {
	texts := map[int]string{}
	room := htmlLogs
	for _, failed := range []bool{true, false} {
		for i, s := range r.Steps() {
			if len(s.Logs) == 0 || (s.State == runner.StateFailed) != failed {
				continue
			}
			limit := htmlLog
			if failed {
				limit = htmlFailureLog
			}
			if limit = min(limit, room); limit <= 0 {
				texts[i] = "(" + ui.Count(len(s.Logs)+s.LogsDropped, "log") + " left out here)"
				continue
			}
			texts[i] = r.logText(s, limit)
			room -= len(texts[i])
		}
	}
	return texts
}

func (r *run) htmlStep(i int, s *timeline.Step, links map[string]htmlLink) *htmlStep {
	h := &htmlStep{
		Index: i, Name: or(line(s.Name), "(no name)"), Kind: line(s.Kind), Cluster: line(s.Cluster), Group: line(s.Group),
		Tags: line(strings.Join(s.Tags, ", ")), State: stateOf(s), Glyph: or(glyphs[s.State], "?"), Finally: s.Finally,
		Attempt: attempt(s), Took: r.took(s), Held: r.held(s), Note: clean(r.note(s)), Cause: clean(s.Error), Hint: clean(s.Hint), Where: line(where(s)),
	}
	for _, name := range r.critical {
		h.Critical = h.Critical || name == s.Name
	}
	if !s.Started.IsZero() {
		h.Started = r.offset(s.Started)
	}
	if !s.Ended.IsZero() {
		h.Ended = r.offset(s.Ended)
	}
	if s.TimeoutSeconds > 0 {
		h.Timeout = ui.Brief(time.Duration(s.TimeoutSeconds * float64(time.Second)))
	}
	if s.Revision > 0 {
		h.Revision = strconv.Itoa(s.Revision)
	}
	for _, name := range s.Needs {
		l, ok := links[name]
		if !ok {
			l = htmlLink{Index: -1, Name: line(name)}
		}
		l.Text = string(s.NeedsOn[name])
		h.Needs = append(h.Needs, l)
	}
	const most = 50
	for n, name := range r.blocks[s.Name] {
		if n == most {
			h.MoreBlocks = len(r.blocks[s.Name]) - most
			break
		}
		h.Blocks = append(h.Blocks, links[name])
	}
	for _, g := range r.x.Guards() {
		if g.Step == s.Name {
			h.Guards = append(h.Guards, line(g.String()))
		}
	}
	r.history(h, s)
	return h
}

// history fills in what happened to a step.
func (r *run) history(h *htmlStep, s *timeline.Step) {
	for _, w := range s.Webhooks {
		l := htmlLadder{Name: line(w.Name), Service: line(w.Service)}
		for _, rung := range ladder(w) {
			l.Rungs = append(l.Rungs, htmlRung{Name: line(rung.Name), State: word(rung.State), Glyph: stands[rung.State], Cause: clean(rung.Cause), Words: line(rung.Explanation)})
		}
		h.Ladders = append(h.Ladders, l)
	}
	if len(s.Attempts) > 1 {
		for _, a := range s.Attempts {
			h.Attempts = append(h.Attempts, r.attempt(a))
		}
	}
	for _, n := range s.Notes {
		h.Notes = append(h.Notes, htmlNotice{At: r.offset(n.Time), Text: clean(n.Text)})
	}
	for i, o := range s.Objects {
		if i == htmlObjects {
			h.MoreObjects = len(s.Objects) - htmlObjects
			break
		}
		h.Objects = append(h.Objects, htmlObject{line(o.Name), clean(o.Text), r.offset(o.Last)})
	}
	for _, x := range s.Holds {
		h.Holds = append(h.Holds, htmlSum{line(holder(x)), ui.Count(x.Requests, "request"), ui.Brief(x.Longest), ui.Brief(x.Total), clean(x.Cause), line(x.Explanation)})
	}
	for _, o := range outputs(s) {
		h.Outputs = append(h.Outputs, pair{line(o.Name), clean(o.Value)})
	}
}

func (r *run) attempt(a timeline.Attempt) htmlAttempt {
	to, came := a.To, line(string(a.State))
	if to.IsZero() {
		to, came = r.end, "at work"
	}
	if a.State == runner.StateRetrying {
		came = "failed, to be tried again"
	}
	return htmlAttempt{a.N, r.offset(a.From), ui.Brief(to.Sub(a.From)), came, clean(a.Error), clean(a.Hint), a.State}
}

func (r *run) environment() []pair {
	all := []pair{
		{"Plan", line(r.x.Plan())},
		{"Plan file", line(r.meta.PlanFile)},
		{"Run on", line(r.About())},
		{"Record", line(r.meta.Record)},
		{"Started", at(r.Start()).Text},
		{"Ended", ""},
		{"Took", ui.Brief(r.elapsed())},
		{"Steps", ui.Count(len(r.Steps()), "step")},
		{"kplan", line(r.meta.Version)},
	}
	if r.Ended() {
		all[5].Value = at(r.end).Text
	}
	var known []pair
	for _, p := range all {
		if p.Value != "" {
			known = append(known, p)
		}
	}
	return known
}

// at writes a time for readers who may be anywhere.
func at(t time.Time) moment {
	if t.IsZero() {
		return moment{}
	}
	return moment{clock(t), t.UTC().Format(time.RFC3339Nano)}
}

// word is how a rung stands, also where nobody looked.
func word(state string) string {
	if state == "" {
		return "not reached"
	}
	return line(state)
}

func or(s, without string) string {
	if s == "" {
		return without
	}
	return s
}
