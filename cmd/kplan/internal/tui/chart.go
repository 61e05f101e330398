package tui

import (
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// bars are how a chart shows a time in a state: each has a character of its own.
var bars = map[runner.State]sign{
	runner.StateRunning:  {role: style.Busy, unicode: "█", ascii: "="},
	runner.StateHolding:  {role: style.Wait, unicode: "▒", ascii: "~"},
	runner.StateRetrying: {role: style.Wait, unicode: "┄", ascii: "."},
}

// chart is the view that shows when each step was in which state, on one scale of
// time, and which steps the end of the run depends on.
type chart struct{ list }

// rows returns how many lines the steps have, between the scale and the legend.
func rows(height int) int { return max(height-2, 1) }

func (c *chart) draw(height int) []string {
	if len(c.steps()) == 0 {
		return c.list.draw(height)
	}
	lines := append([]string{c.axis()}, c.list.draw(rows(height))...)
	for len(lines) < height-1 {
		lines = append(lines, "")
	}
	return append(lines, c.legend())
}

func (c *chart) scroll(m motion, height int) { c.list.scroll(m, rows(height)) }

func (c *chart) click(line, height int) (again bool) { return c.list.click(line-1, rows(height)) }

func (c *chart) begin() int { return 4 + min(c.nameWidth(c.width), max(c.width/4, 10)) + 1 + 2 }

// cells returns how many columns there are for bars.
func (c *chart) cells() int { return max(c.width-c.begin()-8, 8) }

// column returns where a time after the begin of the run is shown.
func (c *chart) column(t time.Duration) int {
	return int(t * time.Duration(c.cells()) / c.span())
}

func (c *chart) span() time.Duration { return max(c.now.Sub(c.run.Start()), time.Second) }

// ticks are distances on the axis that are easy to read.
var ticks = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// axis returns the scale: a mark at every tick, with its time.
func (c *chart) axis() string {
	const least = 9 // cells between two marks
	step := ticks[len(ticks)-1]
	if i := slices.IndexFunc(ticks, func(t time.Duration) bool { return c.column(t) >= least }); i >= 0 {
		step = ticks[i]
	}
	l := c.Line(c.width).To(c.begin())
	for t := time.Duration(0); t <= c.span(); t += step {
		at := c.column(t)
		if at > c.cells()-5 && t > 0 {
			break
		}
		l.To(c.begin()+at).Put(style.Dim, c.Sign("╷", "|")+words.Exact(t))
	}
	return l.String()
}

func (c *chart) items() []item {
	critical, steps := c.run.Critical(c.now), c.steps()
	items := make([]item, len(steps))
	for i, s := range steps {
		items[i] = item{key: s.Name, head: func(selected bool) string { return c.line(s, slices.Contains(critical, s.Name), selected) }}
	}
	return items
}

func (c *chart) line(s *timeline.Step, critical, selected bool) string {
	l, name := c.head(c.width, selected, s.State == runner.StatePending || s.State == runner.StateSkipped)
	role, sign := c.sign(s.State)
	l.Put(role, sign+" ").Cell(name, words.Line(s.Name), c.begin()-7)
	if critical {
		l.Put(style.Mark, c.Sign("◆", "*"))
	}
	l.To(c.begin())
	states := c.states(s)
	for i := 0; i < len(states); {
		end := i
		for end < len(states) && states[end] == states[i] {
			end++
		}
		if bar, drawn := bars[states[i]]; drawn {
			if critical && states[i] == runner.StateRunning {
				bar.role = style.Mark
			}
			l.To(c.begin()+i).Put(bar.role, strings.Repeat(c.Sign(bar.unicode, bar.ascii), end-i))
		}
		i = end
	}
	took := c.took(s)
	if took == "" {
		took = string(s.State)
	}
	if end := c.begin() + len(states); c.width-end >= words.Width(took)+1 || s.Started.IsZero() {
		l.To(min(end, c.width-words.Width(took)-1)).Put(style.Plain, " ").Put(style.Dim, took)
	}
	return l.String()
}

// states returns the state of a step in each column of the chart, "" where it was
// not at work. No time is too short to be seen.
func (c *chart) states(s *timeline.Step) []runner.State {
	var states []runner.State
	for _, p := range s.Spans {
		if _, drawn := bars[p.State]; !drawn {
			continue
		}
		to := p.To
		if to.IsZero() {
			to = c.now
		}
		from := min(max(c.column(p.From.Sub(c.run.Start())), 0), c.cells()-1)
		end := min(max(c.column(to.Sub(c.run.Start())), from+1), c.cells())
		if more := end - len(states); more > 0 {
			states = append(states, make([]runner.State, more)...)
		}
		for i := from; i < end; i++ {
			states[i] = p.State
		}
	}
	return states
}

// legend says what the chart's characters mean.
func (c *chart) legend() string {
	l := c.Line(c.width).To(2)
	for _, s := range []runner.State{runner.StateRunning, runner.StateHolding, runner.StateRetrying} {
		b := bars[s]
		text := c.Sign(b.unicode, b.ascii) + " " + string(s)
		if l.Room() < words.Width(text)+2 {
			return l.String()
		}
		l.Put(b.role, text).Put(style.Plain, "  ")
	}
	if path := c.run.Critical(c.now); len(path) > 0 {
		text := c.Sign("◆", "*") + " critical: "
		if l.Room() > words.Width(text)+10 {
			l.Put(style.Mark, text).Put(style.Plain, words.Line(strings.Join(path, c.Sign(" → ", " > "))))
		}
	}
	return l.String()
}
