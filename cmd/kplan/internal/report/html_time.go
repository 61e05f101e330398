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
// percent of its length, which is that of the run.
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

func (w *pageWriter) axis() axis {
	const most = 8
	total := w.elapsed()
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
	a := axis{Step: percent(float64(step) / float64(total)), Ticks: []tick{{"0", "0"}}}
	for d := step; d <= total; d += step {
		a.Ticks = append(a.Ticks, tick{percent(float64(d) / float64(total)), words.Exact(d)})
	}
	return a
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
func (w *pageWriter) row(h *htmlStep) htmlRow {
	row := htmlRow{htmlStep: h, Title: words.Join(", ", h.Name+": "+string(h.State),
		words.Prefixed("took ", h.Took), words.Prefixed("held ", h.Held), words.Prefixed("attempt ", h.Attempt))}
	if !h.Ended.IsZero() && !h.Started.IsZero() {
		row.End = percent(w.share(h.Ended))
	}
	for _, x := range h.Spans {
		if !x.State.Active() && x.State != runner.StateRetrying || len(row.Bars) == htmlBars {
			continue
		}
		b := w.bar(x.From, x.To, "b-"+string(x.State))
		b.Title = fmt.Sprintf("%s %s, from %s", x.State, words.Brief(w.until(x.To).Sub(x.From)), w.offset(x.From))
		if attempts := h.Step.Step.Attempts; attempts > 1 {
			b.Title += fmt.Sprintf(", attempt %d/%d", x.Attempt, attempts)
		}
		row.Bars = append(row.Bars, b)
	}
	return row
}

// share is how much of the run was over at t, from 0 to 1.
func (w *pageWriter) share(t time.Time) float64 {
	if w.elapsed() <= 0 {
		return 0
	}
	return min(max(float64(t.Sub(w.Start()))/float64(w.elapsed()), 0), 1)
}

func (w *pageWriter) bar(from, to time.Time, class string) bar {
	a, b := w.share(from), w.share(w.until(to))
	return bar{Left: percent(a), Width: percent(max(b-a, 0)), Class: class}
}

func percent(share float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", share*100), "0"), ".")
}

func (w *pageWriter) legend() []runner.State {
	return slices.DeleteFunc([]runner.State{runner.StateRunning, runner.StateHolding, runner.StateRetrying}, func(state runner.State) bool {
		return !slices.ContainsFunc(w.Steps(), func(s *timeline.Step) bool {
			return slices.ContainsFunc(s.Spans, func(x timeline.Span) bool { return x.State == state })
		})
	})
}
