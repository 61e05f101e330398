package report

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
	"html/template"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
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

	// What the template calls with times is of a run: see funcs.
	pageTemplate = template.Must(template.New("page").Funcs((&pageWriter{run: &run{}}).funcs()).Parse(dense(pageText)))
)

// dense takes the ends of lines out of the templates that the page has once for each
// step: between tags, a browser would make a node of each.
func dense(text string) string {
	once, each, _ := strings.Cut(text, "{{/* for each step */}}")
	return once + regexp.MustCompile(`\n *`).ReplaceAllString(each, "")
}

// htmlPage is what the page's template draws. html/template escapes it for where it
// stands.
type htmlPage struct {
	Style  template.CSS
	Script template.JS
	// ScriptHash lets this script run and no other.
	ScriptHash string

	Plan, On, Elapsed, Stopped, StoppedAt string
	// Fleet and Cluster are what the run is a part of.
	Fleet, Cluster string
	State          runner.State
	Unfinished     bool
	// Start and StartMachine are when the run began, for people and for programs.
	Start, StartMachine string
	Counts              []stateCount
	Failures            []htmlFailure
	MoreFailures        int
	Critical            []htmlLink
	Axis                axis
	Rows                []htmlRow
	Legend              []runner.State
	Lanes               []htmlLane
	Graph               *htmlGraph
	Steps               []*htmlStep
	Notices             []timeline.Notice
	Environment         []pair
}

// htmlLink leads to a step.
type htmlLink struct {
	Index int
	Name  string
	Text  string // beside the name
}

// htmlFailure is a step that failed, and others with the same cause.
type htmlFailure struct {
	*htmlStep
	Same     []htmlLink
	MoreSame int
	// LogEnd are the last lines of the log.
	LogEnd string
}

// pageWriter makes the page of a run.
type pageWriter struct {
	*run
	links map[string]htmlLink // by the names of steps
	steps []*htmlStep
}

// funcs are the functions of the page's template. Each text that a cluster, a
// chart or a plan has to say goes through line or clean.
func (w *pageWriter) funcs() template.FuncMap {
	return template.FuncMap{
		"line": line, "clean": clean, "list": func(names []string) string { return line(strings.Join(names, ", ")) },
		"count": words.Count, "brief": words.Brief,
		"seconds":   func(s float64) string { return words.Brief(time.Duration(s * float64(time.Second))) },
		"offset":    w.offset,
		"lasted":    func(from, to time.Time) string { return words.Brief(w.until(to).Sub(from)) },
		"glyph":     func(s runner.State) string { return glyphs[s] },
		"hookGlyph": func(s runner.HookState) string { return hookGlyphs[s] },
		"ladder":    ladder,
		"stands":    func(state string) string { return stands[state] },
		"word":      word, "where": where, "holder": holder, "notice": notice, "cameTo": cameTo, "outcome": outcome,
		"link": func(step string) htmlLink { return w.links[step] },
	}
}

func writeHTML(w io.Writer, r *run) error {
	page, err := pageTemplate.Clone()
	if err != nil {
		return err
	}
	from, b := newPageWriter(r), bufio.NewWriter(w)
	if err := page.Funcs(from.funcs()).Execute(b, from.page()); err != nil {
		return err
	}
	return b.Flush()
}

func newPageWriter(r *run) *pageWriter {
	w := &pageWriter{run: r, links: map[string]htmlLink{}}
	for i, s := range r.Steps() {
		w.links[s.Name] = htmlLink{Index: i, Name: line(s.Name)}
	}
	for i, s := range r.Steps() {
		w.steps = append(w.steps, w.step(i, s))
	}
	w.addObjects()
	for i, log := range r.logs(htmlLogs, htmlFailureLog, htmlLog) {
		w.steps[i].Log = log
	}
	return w
}

func (w *pageWriter) page() *htmlPage {
	sum := sha256.Sum256([]byte(pageScript))
	p := &htmlPage{
		Style: template.CSS(pageStyle), Script: template.JS(pageScript), //nolint:gosec // they are ours
		ScriptHash: "sha256-" + base64.StdEncoding.EncodeToString(sum[:]),
		Plan:       cmp.Or(line(w.x.Plan()), "plan"), State: w.state(), On: line(w.About()), Elapsed: words.Brief(w.elapsed()),
		Start: clock(w.Start()), StartMachine: w.Start().UTC().Format(time.RFC3339Nano), Stopped: clean(w.x.Err()), Counts: w.counts(), Axis: w.axis(), Legend: w.legend(), Steps: w.steps, Environment: w.environment(),
		Unfinished: !w.Ended(), Fleet: line(w.meta.Fleet), Cluster: line(w.meta.Cluster),
	}
	for _, s := range w.steps {
		p.Rows = append(p.Rows, w.row(s))
	}
	p.Failures, p.MoreFailures = w.tell()
	for _, name := range w.critical {
		l := w.links[name]
		l.Text = w.took(w.Step(name))
		p.Critical = append(p.Critical, l)
	}
	for _, l := range w.Webhooks() {
		p.Lanes = append(p.Lanes, w.lane(l))
	}
	p.Graph = w.graph()
	for _, n := range w.Notices() {
		if n.Type == runner.TypeCancel {
			p.StoppedAt = w.offset(n.Time)
			continue
		}
		p.Notices = append(p.Notices, n)
	}
	return p
}

// tell returns the failures that are shown first, and the number of the others.
func (w *pageWriter) tell() (told []htmlFailure, more int) {
	for _, f := range w.failures() {
		if len(told) == htmlFailures {
			more += 1 + len(f.same)
			continue
		}
		h := htmlFailure{htmlStep: w.steps[w.links[f.Name].Index]}
		h.LogEnd = lastLines(h.Log, htmlLogEnd)
		for _, s := range f.same[:min(len(f.same), htmlSame)] {
			h.Same = append(h.Same, w.links[s.Name])
		}
		h.MoreSame = len(f.same) - len(h.Same)
		told = append(told, h)
	}
	return told, more
}

func (r *run) environment() []pair {
	all := []pair{
		{"Plan", line(r.x.Plan())},
		{"Plan file", line(r.meta.PlanFile)},
		{"Fleet", line(r.meta.Fleet)},
		{"Cluster", line(r.meta.Cluster)},
		{"Run on", line(r.About())},
		{"Record", line(r.meta.Record)},
		{"Started", clock(r.Start())},
		{"Ended", ""},
		{"Took", words.Brief(r.elapsed())},
		{"Steps", words.Count(len(r.Steps()), "step")},
		{"kplan", line(r.meta.Version)},
	}
	if r.Ended() {
		all[7].Value = clock(r.end)
	}
	return slices.DeleteFunc(all, func(p pair) bool { return p.Value == "" })
}

// word says how a rung stands, also where nobody looked.
func word(state string) string { return cmp.Or(line(state), "not known") }

// cameTo says how an attempt ended, or that it did not.
func cameTo(a timeline.Attempt) string {
	switch {
	case a.State == runner.StateRetrying:
		return "failed, to be tried again"
	case a.To.IsZero():
		return "at work"
	}
	return line(string(a.State))
}

// htmlStep is a step with its details.
type htmlStep struct {
	*timeline.Step
	Index                     int
	Name, Glyph               string
	State                     runner.State
	Critical                  bool
	Attempt, Took, Held, Note string
	GroupWait                 string // "" if it did not wait for its concurrency group
	Needs                     []htmlLink
	Blocks                    []htmlLink
	MoreBlocks                int
	Guards                    []string
	Objects                   []*timeline.Object
	MoreObjects               int
	Holds                     []*runner.Hold
	Outputs                   []pair
	Log                       string
}

func (w *pageWriter) step(i int, s *timeline.Step) *htmlStep {
	h := &htmlStep{
		Step: s, Index: i, Name: cmp.Or(line(s.Name), "(no name)"), State: stateOf(s), Glyph: cmp.Or(glyphs[s.State], "?"),
		Critical: slices.Contains(w.critical, s.Name), Attempt: attempt(s), Took: w.took(s), Held: w.held(s), Note: clean(w.note(s)),
		Holds: s.HoldsAt(w.end), Outputs: outputs(s),
	}
	if d := s.GroupWait(w.end); d > 0 {
		h.GroupWait = words.Brief(d)
	}
	for _, name := range s.Needs {
		l, ok := w.links[name]
		if !ok {
			l = htmlLink{Index: -1, Name: line(name)}
		}
		l.Text = string(s.NeedsOn[name])
		h.Needs = append(h.Needs, l)
	}
	const most = 50
	blocks := w.blocks[s.Name]
	for _, name := range blocks[:min(len(blocks), most)] {
		h.Blocks = append(h.Blocks, w.links[name])
	}
	h.MoreBlocks = len(blocks) - len(h.Blocks)
	for _, g := range w.x.Guards() {
		if g.Step == s.Name {
			h.Guards = append(h.Guards, line(g.String()))
		}
	}
	return h
}

// addObjects fills in the objects of steps: those of steps that are not done come
// before others get what room is left.
func (w *pageWriter) addObjects() {
	room := htmlAllObjects
	for _, good := range []bool{false, true} {
		for _, h := range w.steps {
			if h.Step.State.Good() != good {
				continue
			}
			n := min(len(h.Step.Objects), htmlObjects, room)
			h.Objects, h.MoreObjects = h.Step.Objects[:n], len(h.Step.Objects)-n
			room -= n
		}
	}
}
