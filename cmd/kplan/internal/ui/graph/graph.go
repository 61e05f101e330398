// Package graph draws the graph of a plan's steps: as text for people, as dot
// for Graphviz, as mermaid for Markdown, and as JSON for programs.
//
// It draws plans, not runs: what became of a step is told by package ui.
package graph

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// Format is a way to draw a graph.
type Format string

// The formats that there are.
const (
	Text    Format = "text"
	Dot     Format = "dot"
	Mermaid Format = "mermaid"
	JSON    Format = "json"
)

// Formats are all formats, the default first.
var Formats = []Format{Text, Dot, Mermaid, JSON}

// Write draws the steps of p to w, with the webhooks of the plan that intercept
// their objects.
func Write(w io.Writer, f Format, p *plan.Plan, guards []runner.Guard) error {
	d := newDrawing(p)
	d.Guards = append(d.Guards, guards...)
	b := bufio.NewWriter(w)
	switch f {
	case Text:
		d.text(b)
	case Dot:
		d.dot(b)
	case Mermaid:
		d.mermaid(b)
	case JSON:
		e := json.NewEncoder(b)
		e.SetIndent("", "  ")
		if err := e.Encode(d); err != nil {
			return err
		}
	default:
		return fmt.Errorf("there is no format %q", string(f))
	}
	return b.Flush()
}

// drawing is what all formats show. Level counts from 1.
type drawing struct {
	Plan   string   `json:"plan"`
	Order  []string `json:"order"`
	Roots  []string `json:"roots"`
	Levels int      `json:"levels"`
	Steps  []*step  `json:"steps"`
	// Guards say whose webhooks intercept whose objects.
	Guards []runner.Guard `json:"guards"`

	levels [][]string
	byName map[string]*step
}

type step struct {
	Name       string   `json:"name"`
	Kind       string   `json:"kind"`
	Level      int      `json:"level"`
	Needs      []string `json:"needs"`
	Dependents []string `json:"dependents"`
	// NeedsOn says how needed steps must have ended, where that is not success.
	NeedsOn map[string]plan.NeedOn `json:"needs_on,omitempty"`
	// Group is the name in the plan of a step that has one for each item.
	Group string `json:"group,omitempty"`
	// ConcurrencyGroup is the group of which no two steps run at the same time.
	ConcurrencyGroup string   `json:"concurrency_group,omitempty"`
	Tags             []string `json:"tags,omitempty"`
	// Finally says that the step starts when all others have ended.
	Finally bool `json:"finally,omitempty"`
	// Skip says why the step is not run.
	Skip string `json:"skip,omitempty"`

	index int
}

func newDrawing(p *plan.Plan) *drawing {
	g := p.Graph()
	d := &drawing{
		Plan: p.Metadata.Name, Order: list(g.Order()), Roots: list(g.Roots()), Steps: []*step{}, Guards: []runner.Guard{},
		byName: map[string]*step{},
	}
	for i, s := range p.Steps {
		x := &step{
			Name: s.Name, Kind: string(s.Kind()), Needs: list(g.Needs(s.Name)), Dependents: list(g.Dependents(s.Name)),
			Group: s.Group, ConcurrencyGroup: s.ConcurrencyGroup, Tags: s.Tags, Finally: s.Last, Skip: s.Skip, index: i,
			NeedsOn: map[string]plan.NeedOn{},
		}
		for _, n := range s.Needs {
			if n.On != "" && n.On != plan.NeedSuccess {
				x.NeedsOn[n.Step] = n.On
			}
		}
		d.Steps = append(d.Steps, x)
		d.byName[s.Name] = x
	}
	d.level(g.Levels())
	return d
}

// level notes on which level each step stands. Finally steps stand below all others.
func (d *drawing) level(levels [][]string) {
	for _, last := range []bool{false, true} {
		for _, level := range levels {
			var names []string
			for _, n := range level {
				if d.byName[n].Finally == last {
					names = append(names, n)
				}
			}
			if len(names) > 0 {
				d.levels = append(d.levels, names)
			}
		}
	}
	d.Levels = len(d.levels)
	for i, names := range d.levels {
		for _, n := range names {
			d.byName[n].Level = i + 1
		}
	}
}

// needs says what the step needs, and how, for people.
func (s *step) needs() string {
	texts := make([]string, len(s.Needs))
	for i, n := range s.Needs {
		if texts[i] = n; s.NeedsOn[n] != "" {
			texts[i] = fmt.Sprintf("%s (%s)", n, s.NeedsOn[n])
		}
	}
	return strings.Join(texts, ", ")
}

// list makes an empty list of none, for JSON.
func list(names []string) []string {
	return append([]string{}, names...)
}

// text lists the steps by level. A step starts when all that it needs is done,
// which may be before others of the level above are.
func (d *drawing) text(w io.Writer) {
	name, kind := 0, 0
	for _, s := range d.Steps {
		name, kind = max(name, len(s.Name)), max(kind, len(s.Kind))
	}
	number := len(fmt.Sprint(d.Levels))
	fmt.Fprintf(w, "%s: %s on %s\n", d.Plan, words.Count(len(d.Steps), "step"), words.Count(d.Levels, "level"))
	for i, level := range d.levels {
		for j, n := range level {
			s := d.byName[n]
			mark := ""
			if j == 0 {
				mark = fmt.Sprint(i + 1)
			}
			var notes []string
			if s.Finally {
				notes = append(notes, "finally")
			}
			if len(s.Needs) > 0 {
				notes = append(notes, "needs "+s.needs())
			}
			if s.ConcurrencyGroup != "" {
				notes = append(notes, "in group "+s.ConcurrencyGroup)
			}
			if s.Skip != "" {
				notes = append(notes, "skipped: "+s.Skip)
			}
			line := fmt.Sprintf("%*s  %-*s  %-*s  %s", number, mark, name, s.Name, kind, s.Kind, strings.Join(notes, "; "))
			fmt.Fprintln(w, strings.TrimRight(line, " "))
			for _, g := range d.Guards {
				if g.Step == n {
					fmt.Fprintf(w, "%*s  %s\n", number+name+kind+4, "", g)
				}
			}
		}
	}
}

// dot draws for Graphviz; an arrow leads from a step to those that need it.
func (d *drawing) dot(w io.Writer) {
	fmt.Fprintf(w, "digraph %s {\n  rankdir=LR;\n  node [shape=box];\n", dotQuote(d.Plan))
	for _, s := range d.Steps {
		style := ""
		if s.Skip != "" {
			style = ", color=grey, fontcolor=grey"
		}
		fmt.Fprintf(w, "  %s [label=%s%s];\n", dotQuote(s.Name), dotQuote(s.Name+"\n"+s.kind()), style)
	}
	for _, s := range d.Steps {
		for _, n := range s.Needs {
			style := ""
			if on := s.NeedsOn[n]; on != "" {
				style = fmt.Sprintf(" [label=%s]", dotQuote(string(on)))
			}
			fmt.Fprintf(w, "  %s -> %s%s;\n", dotQuote(n), dotQuote(s.Name), style)
		}
	}
	for _, g := range d.Guards {
		fmt.Fprintf(w, "  %s -> %s [style=dashed, label=%s];\n", dotQuote(g.By), dotQuote(g.Step), dotQuote(label(g)))
	}
	fmt.Fprintln(w, "}")
}

// label is what stands at the arrow from a webhook to what it guards.
func label(g runner.Guard) string {
	text := words.Count(len(g.Webhooks), "webhook")
	if g.Maybe {
		text += "?"
	}
	return text
}

// dotQuote writes a string of the dot language, in which only the quote and the
// backslash are special; \n centres the lines of a label.
func dotQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// mermaid draws for Markdown. Nodes get ids of their own, for names such as
// "end" are words of the language.
func (d *drawing) mermaid(w io.Writer) {
	fmt.Fprintln(w, "flowchart LR")
	for _, s := range d.Steps {
		style := ""
		if s.Skip != "" {
			style = ":::skipped"
		}
		fmt.Fprintf(w, "  s%d[\"%s<br/>%s\"]%s\n", s.index, mermaidText(s.Name), mermaidText(s.kind()), style)
	}
	for _, s := range d.Steps {
		for _, n := range s.Needs {
			arrow := "-->"
			if on := s.NeedsOn[n]; on != "" {
				arrow = fmt.Sprintf("-- \"%s\" -->", mermaidText(string(on)))
			}
			fmt.Fprintf(w, "  s%d %s s%d\n", d.byName[n].index, arrow, s.index)
		}
	}
	if slices.ContainsFunc(d.Steps, func(s *step) bool { return s.Skip != "" }) {
		fmt.Fprintln(w, "  classDef skipped color:#999,stroke:#999,fill:none")
	}
	for _, g := range d.Guards {
		fmt.Fprintf(w, "  s%d -. \"%s\" .-> s%d\n", d.byName[g.By].index, mermaidText(label(g)), d.byName[g.Step].index)
	}
}

// kind says what the step is, in a box.
func (s *step) kind() string {
	text := s.Kind
	if s.Finally {
		text += ", finally"
	}
	return words.Join(", in group ", text, s.ConcurrencyGroup)
}

// mermaidText writes text by entities where mermaid or HTML would see more in it.
func mermaidText(s string) string {
	return special.ReplaceAllStringFunc(s, func(c string) string { return fmt.Sprintf("#%d;", c[0]) })
}

// special are the ASCII characters that are neither letters nor digits nor harmless.
var special = regexp.MustCompile(`[\x00-\x1f!-,/:-@[-^\x60{-\x7f]`)
