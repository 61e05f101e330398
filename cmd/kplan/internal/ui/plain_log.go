package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/runner"
)

// lastLines is how many lines of a failed step's log are written once more at
// the end.
const lastLines = 40

// log is what was written of a step's log.
type log struct {
	some         bool      // something was written, and nothing else of the step since
	object, text string    // the last line
	repeats      int       // how often it came again since, not told yet
	tail         []logLine // the last lines
	// left counts the lines before those.
	left int
}

// logLine is a line of an object's log; the object is "" for kplan's own.
type logLine struct{ object, text string }

// log writes lines of a step's log. A line that comes again and again is
// counted.
func (p *plain) log(e runner.Event, s *runner.Step) {
	l := &p.said[s.Name].log
	var fresh []string
	flush := func() {
		if len(fresh) > 0 {
			p.tell(e.Time, s, string(e.Type), "2", logText(e.Object, fresh))
		}
		fresh = nil
	}
	for text := range strings.SplitSeq(strings.TrimRight(e.Message, "\r\n"), "\n") {
		text = strings.TrimRight(p.Clean(text), " ")
		if l.some && text == l.text && e.Object == l.object {
			if l.repeats == 0 {
				flush()
			}
			l.repeats++
			continue
		}
		p.unfold(e.Time, s)
		l.some, l.object, l.text = true, e.Object, text
		l.keep(logLine{p.Clean(e.Object), text})
		fresh = append(fresh, text)
	}
	flush()
}

// logText is lines of an object's log: one beside the object, more below it.
func logText(object string, lines []string) string {
	switch {
	case object == "":
		return strings.Join(lines, "\n")
	case len(lines) == 1:
		return object + ": " + lines[0]
	}
	return object + ":\n" + strings.Join(lines, "\n")
}

// unfold tells how often the last line of a step's log came again, before
// something else is written of the step.
func (p *plain) unfold(now time.Time, s *runner.Step) {
	l := &p.said[s.Name].log
	l.some = false
	if l.repeats == 0 {
		return
	}
	text := fmt.Sprintf("(repeated %s)", Count(l.repeats, "time"))
	l.repeats = 0
	l.keep(logLine{p.Clean(l.object), text})
	p.tell(now, s, string(runner.TypeLog), "2", text)
}

func (l *log) keep(text logLine) {
	l.tail = append(l.tail, text)
	if n := len(l.tail) - lastLines; n > 0 {
		l.left += n
		l.tail = slices.Delete(l.tail, 0, n)
	}
}

// recall writes the last lines of the logs of failed steps: at the end of a long
// output is where people look first.
func (p *plain) recall() {
	for _, s := range p.x.Failed() {
		p.unfold(p.x.Last(), s)
		l := &p.said[s.Name].log
		if len(l.tail) == 0 {
			continue
		}
		title := fmt.Sprintf("log of step %q", s.Name)
		if l.left > 0 {
			title += fmt.Sprintf(", the last %d of %d lines", len(l.tail), l.left+len(l.tail))
		}
		fmt.Fprintf(&p.buf, "\n%s\n", p.paint("1", p.Clean(title)+":"))
		of := ""
		for _, text := range l.tail {
			if text.object != of {
				of = text.object
				fmt.Fprintf(&p.buf, "  %s:\n", cmp.Or(of, "kplan"))
			}
			in := "  "
			if of != "" {
				in = "    "
			}
			fmt.Fprintf(&p.buf, "%s%s\n", in, text.text)
		}
	}
}
