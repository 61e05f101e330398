// Package findings writes what a check of a plan found: as data, as
// annotations of a GitHub workflow and as SARIF.
//
// It finds nothing itself, and it gives no exit codes.
package findings

import (
	"fmt"
	"io"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/actions"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/plan/finding"
)

// Report is what the check of a plan found.
type Report struct {
	// File is the path of the plan, or the fleet, as the user gave it.
	File string `json:"file"`
	// Valid says that nothing found is an error.
	Valid bool `json:"valid"`
	// Fleet and Waves are the fleet's name and how many waves it has, of a fleet file that
	// can be read.
	Fleet string `json:"fleet,omitempty"`
	Waves int    `json:"waves,omitempty"`
	// Plan and Steps are the plan's name and how many steps it has; zero when it
	// cannot be read.
	Plan  string `json:"plan,omitempty"`
	Steps int    `json:"steps"`
	// Findings are in the order of the files and their lines.
	Findings []finding.Finding `json:"diagnostics"`

	// Rules are all that the check looks for, for SARIF.
	Rules []finding.Rule `json:"-"`
	// Root is the folder that paths are relative to in GitHub and SARIF; ""
	// leaves paths as they are.
	Root string `json:"-"`
	// Version is that of kplan.
	Version string `json:"-"`
}

// The formats beside those of package data.
const (
	GitHub data.Format = "github"
	SARIF  data.Format = "sarif"
)

// Formats are all formats.
var Formats = []data.Format{data.JSON, data.YAML, GitHub, SARIF}

// Write writes the report in one of the formats.
func (r Report) Write(w io.Writer, f data.Format) error {
	var err error
	switch f {
	case GitHub:
		_, err = io.WriteString(w, r.annotations())
	case SARIF:
		err = data.Write(w, data.JSON, r.log(), nil)
	default:
		if r.Findings == nil {
			r.Findings = []finding.Finding{} // a list, for programs
		}
		err = data.Write(w, f, r, nil)
	}
	if err != nil {
		return fmt.Errorf("writing what was found: %w", err)
	}
	return nil
}

// annotations are workflow commands, one on a line, which GitHub shows next to
// the lines of the file.
func (r Report) annotations() string {
	var b strings.Builder
	for _, f := range r.Findings {
		a := actions.Annotation{Level: actions.Level(f.Severity), Title: "kplan " + f.Rule, Message: f.Message}
		if f.Severity == finding.Note {
			a.Level = actions.Notice
		}
		if f.InFile() {
			a.File, a.Line, a.Col = actions.Place(r.Root, f.File), f.Line, f.Col
		} else {
			a.Message = f.File + ": " + a.Message
		}
		if f.Hint != "" {
			a.Message += "\nhint: " + f.Hint
		}
		b.WriteString(a.String() + "\n")
	}
	return b.String()
}
