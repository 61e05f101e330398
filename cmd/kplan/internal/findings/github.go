package findings

import (
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/actions"
	"github.com/kplan-dev/kplan/plan/finding"
)

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
