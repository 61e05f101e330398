// Package findings writes what a check of a plan found: as text, as data, as
// annotations of a GitHub workflow and as SARIF.
//
// It finds nothing itself, and it gives no exit codes.
package findings

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/plan"
)

// Severity says how bad a finding is.
type Severity string

// The severities, from the worst on.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Finding is one thing that a check has to say about a place in a file. Its
// texts are safe to show.
type Finding struct {
	plan.Pos
	Severity Severity `json:"severity"`
	// Rule is the id of what was checked: the code of a diagnostic, or the id of a
	// lint rule.
	Rule string `json:"code"`
	// Path is where it is, as a path of fields: steps[0].helm.chart.
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Excerpt is the line of the file, and a second one with a caret.
	Excerpt string `json:"excerpt,omitempty"`
}

// Faults are the findings that a plan's diagnostics are.
func Faults(ds plan.Diagnostics) []Finding {
	all := make([]Finding, len(ds))
	for i, d := range ds {
		all[i] = Finding{
			Pos: d.Pos, Severity: Error, Rule: string(d.Code), Path: d.Path,
			Message: d.Message, Hint: d.Hint, Excerpt: d.Excerpt,
		}
	}
	return all
}

// String renders the finding as plan.Diagnostic does, with its severity and rule.
func (f Finding) String() string {
	return plan.Diagnostic{
		Pos: f.Pos, Message: fmt.Sprintf("%s: %s [%s]", f.Severity, f.Message, f.Rule), Hint: f.Hint, Excerpt: f.Excerpt,
	}.String()
}

// inFile tells whether the finding is of a file, and not of an argument of the
// command line such as --set.
func (f Finding) inFile() bool { return f.File != "" && !strings.HasPrefix(f.File, "--") }

// Rule is what findings can be of.
type Rule struct {
	ID string
	// About says in one sentence what is wrong with what breaks the rule.
	About string
	// Help says why, and what to do about it; "" for no more than About.
	Help string
	// Severity is that of its findings.
	Severity Severity
}

// FaultRules are the rules that a plan's diagnostics are of.
func FaultRules() []Rule {
	var rules []Rule
	for _, c := range plan.Codes() {
		rules = append(rules, Rule{ID: string(c), About: c.About(), Severity: Error})
	}
	return rules
}

// Report is what the check of a plan found.
type Report struct {
	// File is the plan's path as the user gave it.
	File string `json:"file"`
	// Valid says that nothing found is an error.
	Valid bool `json:"valid"`
	// Plan and Steps are the plan's name and how many steps it has; zero when it
	// cannot be read.
	Plan  string `json:"plan,omitempty"`
	Steps int    `json:"steps"`
	// Findings are in the order of the files and their lines.
	Findings []Finding `json:"diagnostics"`

	// Rules are all that the check looks for, for SARIF.
	Rules []Rule `json:"-"`
	// Root is the folder that paths are relative to in GitHub and SARIF; ""
	// leaves paths as they are.
	Root string `json:"-"`
	// Version is that of kplan.
	Version string `json:"-"`
}

// Format is how a report is written.
type Format string

// The formats.
const (
	JSON   Format = "json"
	YAML   Format = "yaml"
	GitHub Format = "github"
	SARIF  Format = "sarif"
)

// Formats are all formats.
var Formats = []Format{JSON, YAML, GitHub, SARIF}

// Write writes the report in one of the formats.
func (r Report) Write(w io.Writer, f Format) error {
	var err error
	switch f {
	case GitHub:
		_, err = io.WriteString(w, r.annotations())
	case SARIF:
		err = writeData(w, r.log(), JSON)
	case JSON, YAML:
		if r.Findings == nil {
			r.Findings = []Finding{} // a list, for programs
		}
		err = writeData(w, r, f)
	default:
		return fmt.Errorf("there is no output format %q", string(f))
	}
	if err != nil {
		return fmt.Errorf("writing what was found: %w", err)
	}
	return nil
}

func writeData(w io.Writer, v any, f Format) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if b = append(b, '\n'); f == YAML {
		if b, err = yaml.JSONToYAML(b); err != nil {
			return err
		}
	} else {
		b = ui.InertJSON(b)
	}
	_, err = w.Write(b)
	return err
}
