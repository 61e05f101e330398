// Package findings writes what a check of a plan found: as data, as
// annotations of a GitHub workflow and as SARIF.
//
// It finds nothing itself, and it gives no exit codes.
package findings

import (
	"fmt"
	"io"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/plan/finding"
)

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
	Findings []finding.Finding `json:"diagnostics"`

	// Rules are all that the check looks for, for SARIF.
	Rules []finding.Rule `json:"-"`
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
		err = data.Write(w, data.JSON, r.log(), nil)
	case JSON, YAML:
		if r.Findings == nil {
			r.Findings = []finding.Finding{} // a list, for programs
		}
		err = data.Write(w, data.Format(f), r, nil)
	default:
		return fmt.Errorf("there is no output format %q", string(f))
	}
	if err != nil {
		return fmt.Errorf("writing what was found: %w", err)
	}
	return nil
}
