package report

import (
	"bufio"
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
	"html/template"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// How much of a run the page has: a browser shall open it at once, and somebody
// read it. The record of a run has all.
const (
	htmlFailureLog = 64 << 10
	htmlLog        = 8 << 10
	htmlLogs       = 6 << 20 // of all steps
	htmlObjects    = 200     // of a step
	htmlAllObjects = 4000    // of all steps
	htmlHolds      = 300     // of a webhook
	htmlHoldRows   = 8       // of a webhook that are drawn one by one
	htmlBars       = 400     // in one row
	htmlFailures   = 20      // failed steps that are told of first
	htmlSame       = 30      // others with the same cause as one of them
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
		"join": strings.Join, "count": words.Count,
	}).Parse(dense(pageText)))
)

// dense takes the ends of lines out of the templates that the page has once for each
// step: between tags, a browser would make a node of each.
func dense(text string) string {
	once, each, _ := strings.Cut(text, "{{/* for each step */}}")
	return once + regexp.MustCompile(`\n *`).ReplaceAllString(each, "")
}

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
	Failures                                                        []htmlFailure
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

type htmlNotice struct{ At, Text string }

// htmlFailure is a step that failed, and others with the same cause.
type htmlFailure struct {
	*htmlStep
	Same     []htmlLink
	MoreSame int
}

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
		Elapsed: words.Brief(r.elapsed()), Stopped: clean(r.x.Err()), Start: at(r.Start()), End: at(r.end),
		Axis: r.axis(), Many: r.many,
	}
	p.Title = p.Plan + ": " + string(p.State)
	if !r.Ended() {
		p.Unfinished = "This is a run that was not over: it shows how far it had come."
	}
	p.Counts = r.counts()
	links := r.links()
	for i, s := range r.Steps() {
		h := r.htmlStep(i, s, links)
		p.Steps = append(p.Steps, h)
		p.Rows = append(p.Rows, r.row(h, s))
	}
	r.objects(p.Steps)
	for i, log := range r.logs() {
		p.Steps[i].Log = log
	}
	p.Failures, p.MoreFailures = r.htmlFailures(p.Steps, links)
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
		p.Notices = append(p.Notices, htmlNotice{r.offset(n.Time), line(notice(n))})
	}
	p.Environment = r.environment()
	return p
}

// htmlFailures are the failed steps that are told of first, and how many are not.
func (r *run) htmlFailures(steps []*htmlStep, links map[string]htmlLink) (told []htmlFailure, more int) {
	for _, f := range r.failures() {
		if len(told) == htmlFailures {
			more += 1 + len(f.same)
			continue
		}
		h := htmlFailure{htmlStep: steps[links[f.Name].Index]}
		h.LogEnd = lastLines(h.Log, htmlLogEnd)
		for _, s := range f.same {
			if len(h.Same) == htmlSame {
				h.MoreSame = len(f.same) - htmlSame
				break
			}
			h.Same = append(h.Same, links[s.Name])
		}
		told = append(told, h)
	}
	return told, more
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

func (r *run) environment() []pair {
	all := []pair{
		{"Plan", line(r.x.Plan())},
		{"Plan file", line(r.meta.PlanFile)},
		{"Run on", line(r.About())},
		{"Record", line(r.meta.Record)},
		{"Started", at(r.Start()).Text},
		{"Ended", ""},
		{"Took", words.Brief(r.elapsed())},
		{"Steps", words.Count(len(r.Steps()), "step")},
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
		return "not known"
	}
	return line(state)
}

func or(s, without string) string {
	if s == "" {
		return without
	}
	return s
}
