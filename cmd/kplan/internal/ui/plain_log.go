package ui

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

const (
	// lastLines is how many lines of a failed step's log are written once more at
	// the end, and lastRead how many of its last are looked at for that.
	lastLines, lastRead = 40, 400
	// heldLines is how many lines are written of what was kept back, and troubleLines
	// how many of a step's trouble in all.
	heldLines, troubleLines = 20, 60
)

// log is what a step's log said, and what was written of it.
type log struct {
	tail []logLine // the last lines
	// left counts the lines before those, and begun those of attempts before.
	left, begun int
	some        bool    // something was written, and nothing else of the step since
	last        logLine // that was written
	repeats     int     // how often it came again since, not told yet

	// kept are lines that are not written, by what is waited for; see trouble.
	kept map[string][]logLine
	// named are those of which it was written that they do not move.
	named map[string]bool
	// written are the lines of troubles, without what changes by itself, and again
	// how often such lines came since, not told yet.
	written map[logLine]bool
	again   int
}

// logLine is a line of an object's log; the object is "" for kplan's own.
type logLine struct{ object, text string }

// signature is what the line has in common with others that say the same.
func (l logLine) signature() logLine { return logLine{signature(l.object), signature(l.text)} }

// log takes lines of a step's log. Those of pods are written as Options.Logs says.
func (p *plain) log(e runner.Event, s *runner.Step) {
	if e.Object != "" && p.Logs == LogsNone {
		return
	}
	var lines []logLine
	for text := range strings.SplitSeq(strings.TrimRight(e.Message, "\r\n"), "\n") {
		lines = append(lines, logLine{p.Clean(e.Object), strings.TrimRight(p.Clean(text), " ")})
	}
	l := &p.said[s.Name].log
	all := append(l.tail, lines...)
	l.tail = lastOf(all, lastRead)
	l.left += len(all) - len(l.tail)
	if e.Object == "" || p.Logs == LogsAll {
		p.tellLog(e.Time, s, lines, func(a, b logLine) bool { return a == b })
		return
	}
	l.kept[e.Of] = lastOf(append(l.kept[e.Of], lines...), lastRead)
	p.trouble(e.Time, s)
}

// lastOf are the last lines, as many as most.
func lastOf(lines []logLine, most int) []logLine {
	return slices.Delete(lines, 0, max(len(lines)-most, 0))
}

// tellLog writes lines. One that comes again and again is counted.
func (p *plain) tellLog(now time.Time, s *runner.Step, lines []logLine, same func(a, b logLine) bool) {
	l := &p.said[s.Name].log
	var fresh []logLine
	flush := func() {
		p.tellLines(now, s, "", fresh)
		fresh = nil
	}
	for _, line := range lines {
		if l.some && same(line, l.last) {
			if l.repeats == 0 {
				flush()
			}
			l.repeats++
			continue
		}
		p.unfold(now, s)
		l.some, l.last = true, line
		fresh = append(fresh, line)
	}
	flush()
}

// tellLines writes title and lines, those of one object that follow each other
// together: one beside the object, more below it.
func (p *plain) tellLines(now time.Time, s *runner.Step, title string, lines []logLine) {
	for len(lines) > 0 {
		object := lines[0].object
		var texts []string
		for len(lines) > 0 && lines[0].object == object {
			texts = append(texts, lines[0].text)
			lines = lines[1:]
		}
		switch {
		case object == "":
		case len(texts) == 1:
			title += object + ": "
		default:
			title += object + ":\n"
		}
		p.tell(now, s, string(runner.TypeLog), "2", title+strings.Join(texts, "\n"))
		title = ""
	}
}

// unfold tells how often the last line of a step's log came again, before
// something else is written of the step.
func (p *plain) unfold(now time.Time, s *runner.Step) {
	l := &p.said[s.Name].log
	l.some = false
	p.tellRepeated(now, s, &l.repeats)
}

// tellRepeated tells how often lines came again that were written before, and counts
// anew.
func (p *plain) tellRepeated(now time.Time, s *runner.Step, count *int) {
	if n := *count; n > 0 {
		*count = 0
		p.tell(now, s, string(runner.TypeLog), "2", repeated(n))
	}
}

func repeated(n int) string { return fmt.Sprintf("(repeated %s)", words.Count(n, "time")) }

// counted is a line, and how often lines like it came before.
type counted struct {
	logLine
	before int
}

// distinct are the last lines, as many as most, of which no two say the same.
func distinct(lines []logLine, most int) []counted {
	var all []counted
	at := map[logLine]int{}
	for _, l := range slices.Backward(lines) {
		k := l.signature()
		if i, known := at[k]; known {
			all[i].before++
		} else if len(all) < most {
			at[k] = len(all)
			all = append(all, counted{logLine: l})
		}
	}
	slices.Reverse(all)
	return all
}

// recall writes the last lines of the logs of failed steps: at the end of a long
// output is where people look first.
func (p *plain) recall() {
	for _, s := range p.x.Failed() {
		l := &p.said[s.Name].log
		lines := distinct(l.tail, lastLines)
		if len(lines) == 0 {
			continue
		}
		title, told := fmt.Sprintf("log of step %q", s.Name), len(lines)
		for _, line := range lines {
			told += line.before
		}
		if all := l.left + len(l.tail); all > told {
			title += fmt.Sprintf(", the last of %d lines", all)
		}
		fmt.Fprintf(&p.Buf, "\n%s\n", p.Paint("1", p.Clean(title)+":"))
		of := ""
		for _, line := range lines {
			if line.object != of {
				of = line.object
				fmt.Fprintf(&p.Buf, "  %s:\n", cmp.Or(of, "kplan"))
			}
			in := "  "
			if of != "" {
				in = "    "
			}
			fmt.Fprintf(&p.Buf, "%s%s\n", in, line.text)
			if line.before > 0 {
				fmt.Fprintf(&p.Buf, "%s%s\n", in, repeated(line.before))
			}
		}
	}
}

// trouble writes what was kept back of logs of what has not moved for a while.
func (p *plain) trouble(now time.Time, s *runner.Step) {
	l := &p.said[s.Name].log
	for _, of := range slices.Sorted(maps.Keys(l.kept)) {
		if len(l.kept[of]) == 0 || !p.stalls.Stalled(s.Name, of, now) {
			continue
		}
		title := ""
		if !l.named[of] && of != "" {
			title = fmt.Sprintf("%s has not moved for %s; ", p.Clean(of), words.Brief(StallAfter))
		}
		l.named[of] = true
		p.tellTrouble(now, s, title, distinct(l.kept[of], heldLines))
		l.kept[of] = nil
	}
}

// moved forgets what was kept back of an object's logs: it was on its way.
func (l *log) moved(object string) {
	delete(l.kept, object)
	delete(l.named, object)
	delete(l.kept, "") // of older records, which do not say whose they are
}

// attemptFailed writes the end of the log of an attempt that another one follows.
func (p *plain) attemptFailed(now time.Time, s *runner.Step) {
	l := &p.said[s.Name].log
	lines := slices.DeleteFunc(slices.Clone(l.tail[max(l.begun-l.left, 0):]), func(line logLine) bool { return line.object == "" })
	l.begun = l.left + len(l.tail)
	if p.Logs != LogsAll {
		l.again = 0 // they are counted here
		p.tellTrouble(now, s, "", distinct(lines, heldLines))
	}
}

// tellTrouble writes lines, with title before the first. Those that were written
// before, but for what changes by itself, are counted.
func (p *plain) tellTrouble(now time.Time, s *runner.Step, title string, lines []counted) {
	l := &p.said[s.Name].log
	var fresh []counted
	for _, line := range lines {
		if k := line.signature(); l.written[k] {
			l.again += line.before + 1
		} else if len(l.written) < troubleLines {
			l.written[k] = true
			fresh = append(fresh, line)
			if len(l.written) == troubleLines {
				fresh = append(fresh, counted{logLine: logLine{"", "(more is not shown: --logs all does, and --record keeps it)"}})
			}
		}
	}
	if len(fresh) == 0 {
		return
	}
	p.unfold(now, s)
	p.tellRepeated(now, s, &p.said[s.Name].log.again)
	var texts []logLine
	for _, line := range fresh {
		texts = append(texts, line.logLine)
		if line.before > 0 {
			texts = append(texts, logLine{line.object, repeated(line.before)})
		}
	}
	p.tellLines(now, s, title, texts)
}
