package report

import (
	"fmt"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
)

// logText writes the logs of a step, each block of one object below its name and
// time. It keeps the last limit bytes.
func (r *run) logText(s *timeline.Step, limit int) string {
	var b strings.Builder
	lost := s.LogsDropped
	object := ""
	for i, l := range s.Logs {
		if l.Object != object || i == 0 && l.Object != "" {
			fmt.Fprintf(&b, "== %s %s\n", r.offset(l.Time), line(orKplan(l.Object)))
			object = l.Object
		}
		b.WriteString(strings.TrimRight(words.Clean(l.Text), "\n"))
		b.WriteByte('\n')
	}
	text, dropped := tail(b.String(), limit)
	switch {
	case dropped > 0:
		return fmt.Sprintf("(%d bytes of the log are left out here)\n%s", dropped, text)
	case lost > 0:
		return fmt.Sprintf("(%s left out here)\n%s", words.Count(lost, "earlier log"), text)
	}
	return text
}

// orKplan names what wrote a log.
func orKplan(object string) string {
	if object == "" {
		return "kplan"
	}
	return object
}
