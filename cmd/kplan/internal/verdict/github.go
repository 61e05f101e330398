package verdict

import (
	"fmt"
	"strings"
)

// annotations are workflow commands, one on a line, which GitHub shows next to
// the lines of the file.
func (r Report) annotations() string {
	var b strings.Builder
	for _, f := range r.Findings {
		level := string(f.Severity)
		if f.Severity == Note {
			level = "notice"
		}
		message := f.Message
		if !f.inFile() {
			message = f.File + ": " + message
		}
		if f.Hint != "" {
			message += "\nhint: " + f.Hint
		}
		fmt.Fprintf(&b, "::%s ", level)
		if f.inFile() {
			fmt.Fprintf(&b, "file=%s,", property(r.place(f.File)))
			if f.Line > 0 {
				fmt.Fprintf(&b, "line=%d,col=%d,", f.Line, f.Col)
			}
		}
		fmt.Fprintf(&b, "title=%s::%s\n", property("kplan "+f.Rule), data(message))
	}
	return b.String()
}

// The runner takes these escapes back:
// https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs
var (
	forData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	forProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func data(s string) string     { return forData.Replace(s) }
func property(s string) string { return forProperty.Replace(s) }
