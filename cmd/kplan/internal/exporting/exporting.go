// Package exporting shows what became of a plan or a fleet that was written for another
// engine, for people, as Markdown and as JSON.
//
// It exports nothing.
package exporting

import (
	"fmt"
	"io"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/imported"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan/finding"
)

// Report says what was written.
type Report struct {
	// Target is the engine.
	Target string `json:"target"`
	// Of is the plan's file, or the fleet's.
	Of string `json:"of"`
	// Objects are what was made, as Kind/namespace/name.
	Objects []string `json:"objects"`
	// Files are what was written, that of the objects first. There are none on stdout.
	Files []string `json:"files"`
	// Findings say what is not in the objects, or means something else there.
	Findings []finding.Finding `json:"findings"`
	// First says what to do, in that order.
	First []string `json:"first"`
}

// Write writes the report in one of imported.Formats.
func (r Report) Write(w io.Writer, f data.Format) error {
	var err error
	switch f {
	case data.JSON: // lists without items, not null
		r.Objects, r.Files, r.First = append([]string{}, r.Objects...), append([]string{}, r.Files...), append([]string{}, r.First...)
		r.Findings = append([]finding.Finding{}, r.Findings...)
		err = data.Write(w, f, r, nil)
	case imported.Markdown:
		text := fmt.Sprintf("## kplan export %s\n\n%s of `%s`.\n", r.Target, words.Count(len(r.Objects), "object"), r.Of)
		_, err = io.WriteString(w, words.Clean(text+imported.FindingMarkdown("What to do:", r.First, r.Findings)))
	default:
		_, err = io.WriteString(w, words.Clean(imported.FindingTable(r.Findings, "nothing is lost\n")))
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// Lines writes the findings as lint does, a line for each and one for what to do.
func (r Report) Lines(w io.Writer) {
	for _, f := range r.Findings {
		fmt.Fprintln(w, words.Clean(f.String()))
	}
}

// Summary says what was made, and what is to be done.
func (r Report) Summary(w io.Writer) {
	count := map[finding.Severity]int{}
	for _, f := range r.Findings {
		count[f.Severity]++
	}
	text := words.Count(len(r.Objects), "object") + " for " + r.Target
	if n := count[finding.Warning]; n > 0 {
		text += ", " + words.Count(n, "warning")
	}
	if n := count[finding.Note]; n > 0 {
		text += ", " + words.Count(n, "note")
	}
	if len(r.Files) > 0 {
		text += "; wrote " + strings.Join(r.Files, ", ")
	}
	fmt.Fprintln(w, words.Clean(text))
	for i, first := range r.First {
		if i == 0 {
			fmt.Fprintln(w, "what to do:")
		}
		fmt.Fprintf(w, "  %d. %s\n", i+1, words.Line(first))
	}
}
