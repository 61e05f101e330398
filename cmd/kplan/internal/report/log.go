package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// logs returns the logs of all steps, by index. Those of failed steps come as far as
// failed allows before others get what room is left, as far as other allows.
func (r *run) logs(room, failed, other int) []string {
	texts := make([]string, len(r.Steps()))
	for _, f := range []struct {
		failed bool
		limit  int
	}{{true, failed}, {false, other}} {
		for i, s := range r.Steps() {
			if len(s.Logs) == 0 || (s.State == runner.StateFailed) != f.failed {
				continue
			}
			if room <= 0 {
				texts[i] = "(" + words.Count(len(s.Logs)+s.LogsDropped, "log") + " left out here)"
				continue
			}
			texts[i] = r.log(s, min(f.limit, room))
			room -= len(texts[i])
		}
	}
	return texts
}

// log writes the logs of a step, each block of one object below its name and time.
// It keeps the last limit bytes.
func (r *run) log(s *timeline.Step, limit int) string {
	var b strings.Builder
	object := ""
	for i, l := range s.Logs {
		if l.Object != object || i == 0 && l.Object != "" {
			fmt.Fprintf(&b, "== %s %s\n", r.offset(l.Time), line(cmp.Or(l.Object, "kplan")))
			object = l.Object
		}
		b.WriteString(strings.TrimRight(words.Clean(l.Text), "\n"))
		b.WriteByte('\n')
	}
	text, dropped := tail(b.String(), limit)
	switch {
	case dropped > 0:
		return fmt.Sprintf("(%d bytes of the log are left out here)\n%s", dropped, text)
	case s.LogsDropped > 0:
		return fmt.Sprintf("(%s left out here)\n%s", words.Count(s.LogsDropped, "earlier log"), text)
	}
	return text
}
