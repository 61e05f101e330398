package report

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// textLimit bounds a text of one place of a report, such as a cause. Longer
// ones hide more than they tell.
const textLimit = 16 << 10

// clean makes a text harmless that came from a cluster or a chart, and bounds it.
func clean(s string) string { return cut(words.Clean(s), textLimit) }

// line is clean without the ends of lines.
func line(s string) string { return strings.Join(strings.Fields(clean(s)), " ") }

// cut keeps the first limit bytes of s, and says how many are left out.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return fmt.Sprintf("%s … (%d bytes left out)", s[:limit], len(s)-limit)
}

// tail keeps the last limit bytes of s, from the start of a line on if there is one.
func tail(s string, limit int) (rest string, dropped int) {
	if len(s) <= limit {
		return s, 0
	}
	at := len(s) - limit
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	if i := strings.IndexByte(s[at:], '\n'); i >= 0 && at+i+1 < len(s) {
		at += i + 1
	}
	return s[at:], at
}

// shorten keeps the first and the last letters of a name that has no room.
func shorten(s string, letters int) string {
	r := []rune(s)
	if len(r) <= letters {
		return s
	}
	back := (letters - 1) / 2
	return string(r[:letters-1-back]) + "…" + string(r[len(r)-back:])
}

// logs returns the logs of all steps, by index. Those of failed steps come as far as
// failed allows before others get what room is left, as far as other allows.
func (r *run) logs(room, failed, other int) []string {
	texts := make([]string, len(r.Steps()))
	add := func(now bool, limit int) {
		for i, s := range r.Steps() {
			switch {
			case len(s.Logs) == 0, (s.State == runner.StateFailed) != now:
			case room <= 0:
				texts[i] = "(" + words.Count(len(s.Logs)+s.LogsDropped, "log") + " left out here)"
			default:
				texts[i] = r.log(s, min(limit, room))
				room -= len(texts[i])
			}
		}
	}
	add(true, failed)
	add(false, other)
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
