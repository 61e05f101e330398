package report

import (
	"bufio"
	"cmp"
	_ "embed" // the page's parts
	"html/template"
	"io"
	"slices"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/fleetview"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
)

// htmlNames is how many clusters of a group are named outright.
const htmlNames = 30

var (
	//go:embed fleet.html.tmpl
	fleetText string
	//go:embed fleet.css
	fleetStyle string

	fleetTemplate = template.Must(template.New("fleet").Funcs(template.FuncMap{
		"line": line, "clean": clean, "count": words.Count, "said": said[string],
	}).Parse(fleetText))
)

// fleetHTML is what the template of a fleet's page draws.
type fleetHTML struct {
	Style template.CSS

	Fleet, Plan, Elapsed, Start, StartMachine string
	State, Glyph, Stopped, Error, Hint        string
	Unfinished                                bool
	Counts                                    []fleetHTMLCount
	Failures, Holds                           []fleetHTMLGroup
	Waves                                     []fleetHTMLWave
	Clusters                                  []*fleetHTMLCluster
	Environment                               []pair
}

type fleetHTMLCount struct {
	State, Glyph string
	N            int
}

// fleetHTMLGroup is what is to be said of several clusters at once.
type fleetHTMLGroup struct {
	N                   int
	Title, Text, Hint   string
	Clusters, Remaining []*fleetHTMLCluster
}

type fleetHTMLWave struct {
	Name, State, Glyph, Took, Rules string
	Counts                          []fleetHTMLCount
	Clusters                        []*fleetHTMLCluster
}

// fleetHTMLCluster is a row of the table, and a cell of a wave.
type fleetHTMLCluster struct {
	Index                          int
	Name, Wave, State, Glyph, Took string
	Begun                          int
	Source, Server, Note, Hint     string
	// Page is the address of the page of the cluster's own run; "" when there is none.
	Page string
}

// writeFleetHTML writes the page of a fleet. Pages has the addresses of the clusters' own.
func writeFleetHTML(w io.Writer, f *Fleet, pages map[string]string) error {
	b := bufio.NewWriter(w)
	if err := fleetTemplate.Execute(b, newFleetHTML(f, pages)); err != nil {
		return err
	}
	return b.Flush()
}

func newFleetHTML(f *Fleet, pages map[string]string) *fleetHTML {
	p := &fleetHTML{
		Style: template.CSS(pageStyle + fleetStyle), //nolint:gosec // they are ours
		Fleet: cmp.Or(line(f.First.Fleet), "fleet"), Plan: line(f.First.Plan), Elapsed: words.Brief(f.elapsed()),
		Start: clock(f.Started), StartMachine: f.Started.UTC().Format(time.RFC3339Nano),
		State: said(cmp.Or(f.State, fleet.Pending)), Glyph: fleetGlyphs[f.State], Unfinished: !f.ended(),
		Counts: htmlCounts(f.Counts()), Environment: f.environment(),
	}
	if f.Stop != nil {
		p.Stopped = fleetview.StopText(f.Stop)
	}
	if f.State != fleet.Succeeded {
		p.Error, p.Hint = clean(f.Error), clean(f.Hint)
	}
	byName := map[string]*fleetHTMLCluster{}
	for i, c := range f.Clusters {
		h := &fleetHTMLCluster{
			Index: i, Name: cmp.Or(line(c.Name), "(no name)"), Wave: line(c.Wave), State: said(c.State), Glyph: cmp.Or(fleetGlyphs[c.State], "?"),
			Took: brief(fleetview.Took(c, f.Last)), Begun: c.Attempt, Source: line(c.Source), Server: line(c.Server), Note: clean(fleetview.Note(c)), Page: pages[c.Name],
		}
		if c.Result != nil {
			h.Hint = clean(c.Result.Hint)
		}
		p.Clusters, byName[c.Name] = append(p.Clusters, h), h
	}
	for _, g := range f.Failures() {
		p.Failures = append(p.Failures, htmlGroup(g, byName, fleetview.CauseTitle(g.Cause), g.Cause.Text, g.Clusters[0].Result.Hint))
	}
	for _, g := range f.Holds() {
		p.Holds = append(p.Holds, htmlGroup(g, byName, "webhook "+words.Join(" of Service ", g.Hold.Webhook, g.Hold.Service), g.Hold.Cause, ""))
	}
	for _, w := range f.Waves {
		p.Waves = append(p.Waves, htmlWave(f, w, byName))
	}
	return p
}

func htmlGroup(g fleet.Group, byName map[string]*fleetHTMLCluster, title, text, hint string) fleetHTMLGroup {
	h := fleetHTMLGroup{N: len(g.Clusters), Title: line(title), Text: clean(text), Hint: clean(hint)}
	for _, c := range g.Clusters {
		h.Clusters = append(h.Clusters, byName[c.Name])
	}
	n := min(len(h.Clusters), htmlNames)
	h.Clusters, h.Remaining = h.Clusters[:n], h.Clusters[n:]
	return h
}

func htmlWave(f *Fleet, w *fleet.WaveStatus, byName map[string]*fleetHTMLCluster) fleetHTMLWave {
	h := fleetHTMLWave{
		Name: line(w.Name), State: said(w.State), Glyph: cmp.Or(waveGlyphs[w.State], "?"), Took: brief(fleetview.WaveTook(f.Execution, w, f.Last)),
		Counts: htmlCounts(w.Counts()),
	}
	soak, approve := "", ""
	if w.SoakSeconds > 0 {
		soak = "soak " + words.Exact(time.Duration(w.SoakSeconds*float64(time.Second)))
	}
	if w.Approve {
		approve = "wants approval"
	}
	h.Rules = words.Join(", ", words.Count(w.Parallel, "cluster")+" at once", words.Count(w.MaxFailures, "cluster")+" may fail", soak, approve)
	for _, c := range w.Members {
		h.Clusters = append(h.Clusters, byName[c.Name])
	}
	return h
}

func htmlCounts(n map[fleet.State]int) []fleetHTMLCount {
	var all []fleetHTMLCount
	for _, c := range fleetCounts(n) {
		all = append(all, fleetHTMLCount{said(c.State), fleetGlyphs[c.State], c.N})
	}
	return all
}

func (f *Fleet) environment() []pair {
	e := f.First
	ended := ""
	if f.ended() {
		ended = clock(f.Last)
	}
	all := []pair{
		{"Fleet", line(e.Fleet)},
		{"Plan", line(e.Plan)},
		{"Run", line(e.Run)},
		{"Round", words.Count(f.Round, "round")},
		{"Engine", line(e.Engine)},
		{"Digest", line(e.Digest)},
		{"Run by", line(e.By)},
		{"Started", clock(f.Started)},
		{"Ended", ended},
		{"Took", words.Brief(f.elapsed())},
		{"kplan", line(f.Meta.Version)},
	}
	return slices.DeleteFunc(all, func(p pair) bool { return p.Value == "" })
}
