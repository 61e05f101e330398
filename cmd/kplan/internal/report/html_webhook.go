package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// htmlLane is a webhook.
type htmlLane struct {
	*timeline.Webhook
	Title                string
	Held, Longest, Total string
	// Race says what the webhook would have cost without the hold, and Suits which
	// hold_timeout suits it.
	Race, Suits string
	Rungs       []htmlRung
	// Requests are those that were held, one by one if they are few.
	Requests []htmlRequest
	// Area is the outline of how many requests were held, at most Most, if they are many.
	Area  string
	Most  int
	Holds []*timeline.Hold
	More  int
}

// htmlRung is a rung of a ladder, and when it stood how. When says since when it
// stands as it does.
type htmlRung struct {
	timeline.Rung
	When string
	Bars []bar
}

type htmlRequest struct {
	Name, Text string
	Bar        bar
}

func (w *pageWriter) lane(l *timeline.Webhook) htmlLane {
	h := htmlLane{Webhook: l, Title: line(title(l)), Holds: l.Holds[:min(len(l.Holds), htmlHolds)]}
	h.More = l.Requests - len(h.Holds)
	if l.Requests > 0 {
		h.Held, h.Total = words.Count(l.Requests, "request"), words.Brief(l.HoldTime(w.end))
		h.Longest = words.Brief(l.LongestAt(w.end))
	}
	races := w.x.Races()
	if i := slices.IndexFunc(races, func(r runner.Race) bool {
		return r.Cluster == l.Cluster && r.Webhook == l.Name && r.Service == l.Service
	}); i >= 0 {
		h.Race, h.Suits = line(ui.Race(races[i])), races[i].Suits()
	}
	for _, now := range l.Ladder() {
		h.Rungs = append(h.Rungs, htmlRung{now, w.when(now), w.rung(l, now)})
	}
	if l.Requests <= htmlHoldRows {
		h.Requests = w.requests(l)
	} else {
		h.Area, h.Most = w.area(l)
	}
	return h
}

// when says when a rung of a webhook's ladder was reached, or since when it is not.
func (r *run) when(rung timeline.Rung) string {
	switch {
	case rung.State == timeline.Ready && rung.Found:
		return "by " + r.offset(rung.From)
	case rung.State == timeline.Ready:
		return "at " + r.offset(rung.From)
	case rung.State != "":
		return "since " + r.offset(rung.From)
	}
	return ""
}

// rung draws when a rung stood how: those below the one that the webhook stood at
// were reached, and nothing is known of those above.
func (w *pageWriter) rung(l *timeline.Webhook, now timeline.Rung) []bar {
	var (
		bars []bar
		last timeline.Rung
		name = line(now.Name)
		at   = slices.Index(timeline.Ladder, now.Name)
	)
	for _, x := range l.Rungs {
		stood := slices.Index(timeline.Ladder, x.Name)
		switch {
		case stood == at:
		case at >= 0 && stood > at:
			x.State, x.Cause = timeline.Ready, ""
		default:
			continue
		}
		if n := len(bars); n > 0 && last.State == x.State && last.Cause == x.Cause && last.To.Equal(x.From) {
			x.From = last.From
			bars = bars[:n-1]
		}
		last = x
		if len(bars) == htmlBars {
			break
		}
		b := w.bar(x.From, x.To, "r-"+rungClass(x.State))
		b.Title = words.Join(": ", fmt.Sprintf("%s %s, from %s", name, word(x.State), w.offset(x.From)), line(x.Cause))
		bars = append(bars, b)
	}
	return bars
}

// rungClass keeps words that are not known out of the page's classes.
func rungClass(state string) string {
	if stands[state] == "" || state == "" {
		return timeline.Unknown
	}
	return state
}

// requests draws each request that was held.
func (w *pageWriter) requests(l *timeline.Webhook) []htmlRequest {
	var all []htmlRequest
	for _, x := range l.Holds {
		took := words.Brief(w.until(x.To).Sub(x.From))
		b := w.bar(x.From, x.To, "b-holding")
		b.Title = words.Join(": ", fmt.Sprintf("held %s from %s", took, w.offset(x.From)), line(x.Cause))
		if x.Error != "" {
			took += " ✗"
		}
		all = append(all, htmlRequest{line(words.Join(" ", cmp.Or(x.Object, "a request"), "of step "+x.Step)), took, b})
	}
	return all
}

// area outlines how many requests a webhook held over time, in a box of 1000 by 100.
func (w *pageWriter) area(l *timeline.Webhook) (path string, most int) {
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
	for _, next := range changes {
		n += next.by
		most = max(most, n)
	}
	if most == 0 {
		return "", 0
	}
	var b strings.Builder
	b.WriteString("M0,100")
	n = 0
	lastX, lastY := 0.0, 100.0
	for _, next := range changes {
		n += next.by
		x, y := 1000*w.share(next.at), 100-100*float64(n)/float64(most)
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

// outcome says how a hold ended, or that it did not.
func outcome(h *timeline.Hold) string {
	switch {
	case h.To.IsZero():
		return "still held"
	case h.Error != "":
		return "given up"
	}
	return "answered"
}
