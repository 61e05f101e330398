package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// axis is the scale of the timeline. Step is how far apart its ticks are, in
// percent of its length.
type axis struct {
	Ticks []tick
	Step  string
}

type tick struct{ Left, Text string }

// apart are the distances between ticks that people read easily.
var apart = []time.Duration{
	10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 24 * time.Hour,
}

func (r *run) axis() axis {
	const most = 8
	total := r.elapsed()
	if total <= 0 {
		return axis{Step: "100"}
	}
	step := apart[len(apart)-1]
	for _, d := range apart {
		if total/d < most {
			step = d
			break
		}
	}
	for total/step >= 10*most {
		step *= 10
	}
	a := axis{Step: percent(float64(step) / float64(total))}
	for d := time.Duration(0); d <= total; d += step {
		a.Ticks = append(a.Ticks, tick{percent(float64(d) / float64(total)), tickText(d)})
	}
	return a
}

// tickText writes a time on the axis.
func tickText(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < time.Second:
		return d.String()
	case d < time.Minute:
		return fmt.Sprintf("%gs", d.Seconds())
	}
	s := d.String() // 1h30m0s
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// bar is a time in a row, in percent of the run. Class says how it is drawn.
type bar struct{ Left, Width, Class, Title string }

// htmlRow is a step on the timeline.
type htmlRow struct {
	*htmlStep
	Title string
	Bars  []bar
	// End is where the step ended, "" if it did not.
	End string
}

// row draws the spans in which a step was at work or waited for an attempt.
func (r *run) row(h *htmlStep, s *timeline.Step) htmlRow {
	row := htmlRow{htmlStep: h, Title: words.Join(", ", h.Name+": "+string(h.State), prefixed("took ", h.Took), prefixed("held ", h.Held), prefixed("attempt ", h.Attempt))}
	if !s.Ended.IsZero() && !s.Started.IsZero() {
		row.End = r.left(s.Ended)
	}
	for _, x := range s.Spans {
		if !x.State.Active() && x.State != runner.StateRetrying || len(row.Bars) == htmlBars {
			continue
		}
		b := r.bar(x.From, x.To, "b-"+string(x.State))
		b.Title = fmt.Sprintf("%s %s, from %s", x.State, words.Brief(r.until(x.To).Sub(x.From)), r.offset(x.From))
		if s.Step.Attempts > 1 {
			b.Title += fmt.Sprintf(", attempt %d/%d", x.Attempt, s.Step.Attempts)
		}
		row.Bars = append(row.Bars, b)
	}
	return row
}

// until is a time, or the end of the run if that is open.
func (r *run) until(t time.Time) time.Time {
	if t.IsZero() {
		return r.end
	}
	return t
}

func (r *run) left(t time.Time) string { return percent(r.share(t)) }

// share is how much of the run was over at t, from 0 to 1.
func (r *run) share(t time.Time) float64 {
	if r.elapsed() <= 0 {
		return 0
	}
	return min(max(float64(t.Sub(r.Start()))/float64(r.elapsed()), 0), 1)
}

func (r *run) bar(from, to time.Time, class string) bar {
	a, b := r.share(from), r.share(r.until(to))
	return bar{Left: percent(a), Width: percent(max(b-a, 0)), Class: class}
}

func percent(share float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", share*100), "0"), ".")
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// legend are the states that the timeline shows.
func (r *run) legend() []htmlCount {
	seen := map[runner.State]bool{}
	for _, s := range r.Steps() {
		for _, x := range s.Spans {
			seen[x.State] = true
		}
	}
	var all []htmlCount
	for _, s := range []runner.State{runner.StateRunning, runner.StateHolding, runner.StateRetrying} {
		if seen[s] {
			all = append(all, htmlCount{State: s})
		}
	}
	return all
}

// htmlLane is a webhook.
type htmlLane struct {
	Name, Cluster, Configuration, Owner, Service string
	Held, Longest, Total                         string
	Failed                                       int
	Rungs                                        []htmlRung
	Rows                                         []laneRow
	// Requests are those that were held, one by one if they are few.
	Requests []laneRow
	// Area is the outline of how many requests were held, at most Most, if they are many.
	Area  string
	Most  int
	Holds []htmlHold
	More  int
}

type laneRow struct {
	Name, Text string
	Bars       []bar
}

type htmlHold struct {
	Step                                          htmlLink
	Object, From, Held, Sends, Came, Cause, Words string
	Failed                                        bool
}

func (r *run) lane(l *timeline.Lane, links map[string]htmlLink) htmlLane {
	h := htmlLane{
		Name: line(title(l)), Cluster: line(l.Cluster), Configuration: line(l.Configuration), Owner: line(l.Owner), Service: line(l.Service),
		Failed: l.Failed,
	}
	if l.Requests > 0 {
		h.Held, h.Total = words.Count(l.Requests, "request"), words.Brief(l.HoldTime(r.end))
		h.Longest = words.Brief(l.LongestAt(r.end))
	}
	h.Rungs = r.rungs(l)
	h.Rows = r.rungRows(l)
	if l.Requests <= htmlHoldRows {
		h.Requests = r.holdRows(l)
	} else {
		h.Area, h.Most = r.area(l)
	}
	for i, x := range l.Holds {
		if i == htmlHolds {
			break
		}
		h.Holds = append(h.Holds, r.hold(x, links))
	}
	h.More = l.Requests - len(h.Holds)
	return h
}

// rungs says when each rung of a webhook's ladder was reached.
func (r *run) rungs(l *timeline.Lane) []htmlRung {
	var all []htmlRung
	for _, rung := range l.Ladder() {
		h := htmlRung{Name: line(rung.Name), State: word(rung.State), Glyph: stands[rung.State], Cause: clean(rung.Cause), Words: line(rung.Explanation)}
		switch {
		case rung.State == timeline.Ready && rung.Found:
			h.When = "by " + r.offset(rung.From)
		case rung.State == timeline.Ready:
			h.When = "at " + r.offset(rung.From)
		case rung.State != "":
			h.When = "since " + r.offset(rung.From)
		}
		all = append(all, h)
	}
	return all
}

// rungRows draws when each rung stood how: those below the one that the webhook
// stood at were reached, and nothing is known of those above.
func (r *run) rungRows(l *timeline.Lane) []laneRow {
	var rows []laneRow
	for _, now := range l.Ladder() {
		row := laneRow{Name: line(now.Name)}
		at := slices.Index(timeline.Ladder, now.Name)
		var last timeline.Rung
		for _, x := range l.Rungs {
			stood := slices.Index(timeline.Ladder, x.Name)
			switch {
			case stood == at:
			case at >= 0 && stood > at:
				x.State, x.Cause = timeline.Ready, ""
			default:
				continue
			}
			if n := len(row.Bars); n > 0 && last.State == x.State && last.Cause == x.Cause && last.To.Equal(x.From) {
				x.From = last.From
				row.Bars = row.Bars[:n-1]
			}
			last = x
			if len(row.Bars) == htmlBars {
				break
			}
			b := r.bar(x.From, x.To, "r-"+rungClass(x.State))
			b.Title = words.Join(": ", fmt.Sprintf("%s %s, from %s", row.Name, word(x.State), r.offset(x.From)), line(x.Cause))
			row.Bars = append(row.Bars, b)
		}
		rows = append(rows, row)
	}
	return rows
}

// rungClass keeps words that are not known out of the page's classes.
func rungClass(state string) string {
	switch state {
	case timeline.Ready, timeline.Waiting, timeline.Failed:
		return state
	}
	return timeline.Unknown
}

// holdRows draws each request that was held.
func (r *run) holdRows(l *timeline.Lane) []laneRow {
	var rows []laneRow
	for _, x := range l.Holds {
		b := r.bar(x.From, x.To, "b-holding")
		took := words.Brief(r.until(x.To).Sub(x.From))
		b.Title = words.Join(": ", fmt.Sprintf("held %s from %s", took, r.offset(x.From)), line(x.Cause))
		rows = append(rows, laneRow{Name: line(words.Join(" ", or(x.Object, "a request"), "of step "+x.Step)), Text: took, Bars: []bar{b}})
		if x.Error != "" {
			rows[len(rows)-1].Text += " ✗"
		}
	}
	return rows
}

// area outlines how many requests a webhook held over time, in a box of 1000 by 100.
func (r *run) area(l *timeline.Lane) (path string, most int) {
	type change struct {
		at time.Time
		by int
	}
	var changes []change
	for _, h := range l.Holds {
		changes = append(changes, change{h.From, 1})
		if !h.To.IsZero() {
			changes = append(changes, change{h.To, -1})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return a.at.Compare(b.at) })
	n := 0
	for _, c := range changes {
		n += c.by
		most = max(most, n)
	}
	if most == 0 {
		return "", 0
	}
	var b strings.Builder
	b.WriteString("M0,100")
	n = 0
	lastX, lastY := 0.0, 100.0
	for _, c := range changes {
		n += c.by
		x, y := 1000*r.share(c.at), 100-100*float64(n)/float64(most)
		if x-lastX > 0.5 { // closer ones cannot be told apart
			fmt.Fprintf(&b, "H%.1f", x)
			lastX = x
		}
		if y != lastY {
			fmt.Fprintf(&b, "V%.1f", y)
			lastY = y
		}
	}
	b.WriteString("H1000V100Z")
	return b.String(), most
}

func (r *run) hold(x *timeline.Hold, links map[string]htmlLink) htmlHold {
	h := htmlHold{
		Step: links[x.Step], Object: line(x.Object), From: r.offset(x.From), Held: words.Brief(r.until(x.To).Sub(x.From)),
		Came: "answered", Cause: clean(x.Cause), Words: line(x.Explanation), Failed: x.Error != "",
	}
	switch {
	case x.To.IsZero():
		h.Came = "still held"
	case h.Failed:
		h.Came = "given up"
	}
	if x.Sends > 0 {
		h.Sends = words.Count(x.Sends, "send")
	}
	return h
}
