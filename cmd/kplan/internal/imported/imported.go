// Package imported shows what became of the files of another tool that were made a plan
// of, for people, as Markdown and as JSON.
//
// It imports nothing.
package imported

import (
	"fmt"
	"io"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan/finding"
)

// The formats besides JSON.
const (
	Table    data.Format = "table"
	Markdown data.Format = "markdown"
)

// Formats are all that a report can be written in.
var Formats = []data.Format{Table, data.JSON, Markdown}

// Report says what was made.
type Report struct {
	// Tool is whose files were read.
	Tool string `json:"tool"`
	// Plan is the plan's file, and Files are those beside it.
	Plan  string   `json:"plan"`
	Files []string `json:"files"`
	// Steps counts the plan's steps.
	Steps int `json:"steps"`
	// Findings say what is not in the plan, or means something else there.
	Findings []finding.Finding `json:"findings"`
	// First says what to do before the first run, in that order.
	First []string `json:"first"`
	// Faults are what keeps the plan from being run as it is.
	Faults []finding.Finding `json:"faults"`
}

// Write writes the report in one of Formats.
func (r Report) Write(w io.Writer, f data.Format) error {
	var err error
	switch f {
	case data.JSON: // lists without items, not null
		r.Files, r.First = append([]string{}, r.Files...), append([]string{}, r.First...)
		r.Findings, r.Faults = append([]finding.Finding{}, r.Findings...), append([]finding.Finding{}, r.Faults...)
		err = data.Write(w, f, r, nil)
	case Markdown:
		_, err = io.WriteString(w, words.Clean(r.markdown()))
	default:
		_, err = io.WriteString(w, words.Clean(r.table()))
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
	fmt.Fprintf(w, "%s of %s", words.Count(r.Steps, "step"), r.Tool)
	if n := r.count(finding.Warning); n > 0 {
		fmt.Fprintf(w, ", %s", words.Count(n, "warning"))
	}
	if n := r.count(finding.Note); n > 0 {
		fmt.Fprintf(w, ", %s", words.Count(n, "note"))
	}
	if r.Plan != "-" {
		fmt.Fprintf(w, "; wrote %s", words.Clean(strings.Join(append([]string{r.Plan}, r.Files...), ", ")))
	}
	fmt.Fprintln(w)
	for i, first := range r.First {
		if i == 0 {
			fmt.Fprintln(w, "before the first run:")
		}
		fmt.Fprintf(w, "  %d. %s\n", i+1, words.Line(first))
	}
	if len(r.Faults) > 0 {
		fmt.Fprintf(w, "%s to fill in:\n", words.Count(len(r.Faults), "place"))
		for _, f := range r.Faults {
			fmt.Fprintf(w, "  %s: %s\n", words.Line(f.Pos.String()), words.Line(f.Message))
		}
	}
}

func (r Report) count(s finding.Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

func (r Report) table() string { return FindingTable(r.Findings, "all was imported as it is\n") }

// FindingTable shows findings as a table, or what there is to say when there is none.
func FindingTable(all []finding.Finding, none string) string {
	rows := [][]string{{"WHERE", "FIELD", "WHAT", "TO DO"}}
	for _, f := range all {
		rows = append(rows, []string{f.Pos.String(), f.Path, words.Line(f.Message), words.Line(f.Hint)})
	}
	if len(rows) == 1 {
		return none
	}
	return words.Table(rows, nil)
}

func (r Report) markdown() string {
	return fmt.Sprintf("## kplan import %s\n\n%s in `%s`.\n", r.Tool, words.Count(r.Steps, "step"), code(r.Plan)) +
		FindingMarkdown("Before the first run:", r.First, append(r.Faults, r.Findings...))
}

// FindingMarkdown writes what is to be done, below a line of its own, and a table of findings.
func FindingMarkdown(before string, first []string, all []finding.Finding) string {
	var b strings.Builder
	for i, text := range first {
		if i == 0 {
			b.WriteString("\n" + before + "\n\n")
		}
		fmt.Fprintf(&b, "%d. %s\n", i+1, prose(text))
	}
	for i, f := range all {
		if i == 0 {
			b.WriteString("\n| where | field | what | to do |\n|---|---|---|---|\n")
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", code(f.Pos.String()), code(f.Path), prose(f.Message), prose(f.Hint))
	}
	return b.String()
}

// code is a text within backquotes of a table, and prose one that Markdown takes for no markup.
func code(text string) string {
	return strings.NewReplacer("`", "'", "|", `\|`).Replace(words.Line(text))
}

func prose(text string) string {
	return strings.NewReplacer("<", "&lt;", "|", `\|`, "*", `\*`, "_", `\_`, "[", `\[`, "`", "'").Replace(words.Line(text))
}
