package tui

import (
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// bars are how a chart shows a time in a state: each has a character of its own.
var bars = map[runner.State]sign{
	runner.StateRunning:  {style.Busy, "█", "="},
	runner.StateHolding:  {style.Wait, "▒", "~"},
	runner.StateRetrying: {style.Wait, "┄", "."},
}

// chart shows when each step was in which state, on one scale of time, and which
// steps the end of the run depends on.
func (m *Model) chart(height int) []string {
	items := m.items()
	if len(items) == 0 {
		return []string{"", m.Line(m.width).Put(style.Dim, "  "+m.nothing()).String()}
	}
	rows := max(height-2, 1)
	lines := []string{m.axis()}
	lines = append(lines, m.lists[viewTime].place(items, rows, m.focus()).draw(items, rows)...)
	for len(lines) < height-1 {
		lines = append(lines, "")
	}
	return append(lines, m.legend())
}

// rows is how many lines of the list that is shown are on the screen.
func (m *Model) rows() int {
	if m.view == viewTime {
		return max(m.bodyHeight()-2, 1)
	}
	return m.bodyHeight()
}

// chartAt is the column where the bars begin, and chartWidth how many there are.
func (m *Model) chartAt() int { return 4 + min(m.nameWidth(), max(m.width/4, 10)) + 1 + 2 }

func (m *Model) chartWidth() int { return max(m.width-m.chartAt()-8, 8) }

// span is the time that the chart shows.
func (m *Model) span() time.Duration { return max(m.now.Sub(m.run.Start()), time.Second) }

// ticks are distances on the axis that are easy to read.
var ticks = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// axis is the scale: a mark at every tick, with its time.
func (m *Model) axis() string {
	const least = 9 // cells between two marks
	width, span := m.chartWidth(), m.span()
	step := ticks[len(ticks)-1]
	for _, t := range ticks {
		if int(t*time.Duration(width)/span) >= least {
			step = t
			break
		}
	}
	l := m.Line(m.width).To(m.chartAt())
	for t := time.Duration(0); t <= span; t += step {
		at := int(t * time.Duration(width) / span)
		if at > width-5 && t > 0 {
			break
		}
		l.To(m.chartAt()+at).Put(style.Dim, m.Sign("╷", "|")+scale(t))
	}
	return l.String()
}

// scale writes a time on the axis, where all are whole.
func scale(t time.Duration) string {
	return strings.TrimSuffix(strings.TrimSuffix(t.String(), "0s"), "0m") + zero(t)
}

func zero(t time.Duration) string {
	switch {
	case t%time.Minute != 0 && t%(10*time.Second) == 0, t == 0:
		return "0s"
	case t%time.Hour != 0 && t%(10*time.Minute) == 0 && t%time.Minute == 0:
		return "0m"
	}
	return ""
}

func (m *Model) spanItems() []item {
	steps := m.shown()
	critical := map[string]bool{}
	for _, name := range m.run.Critical(m.now) {
		critical[name] = true
	}
	items := make([]item, len(steps))
	for i, s := range steps {
		items[i] = item{key: s.Name, head: func(selected bool) string { return m.spanLine(s, critical[s.Name], selected) }}
	}
	return items
}

// spanLine is the line of a step in the chart.
func (m *Model) spanLine(s *timeline.Step, critical, selected bool) string {
	l := m.cursor(m.Line(m.width), selected)
	role, g := m.sign(s.State)
	l.Put(role, g+" ")
	name := style.Plain
	switch {
	case selected:
		name = style.Strong
	case s.State == runner.StatePending || s.State == runner.StateSkipped:
		name = style.Dim
	}
	l.Cell(name, words.Line(s.Name), m.chartAt()-7)
	if critical {
		l.Put(style.Mark, m.Sign("◆", "*"))
	}
	l.To(m.chartAt())
	cells := m.cells(s)
	for i := 0; i < len(cells); {
		j := i
		for j < len(cells) && cells[j] == cells[i] {
			j++
		}
		b := bars[cells[i]]
		switch {
		case cells[i] == "":
			l.To(m.chartAt() + j)
		case critical && cells[i] == runner.StateRunning:
			l.Put(style.Mark, strings.Repeat(m.Sign(b.unicode, b.ascii), j-i))
		default:
			l.Put(b.role, strings.Repeat(m.Sign(b.unicode, b.ascii), j-i))
		}
		i = j
	}
	took := m.took(s)
	if took == "" {
		took = string(s.State)
	}
	if end := len(cells) + m.chartAt(); m.width-end >= words.Width(took)+1 || s.Started.IsZero() {
		l.To(min(end, m.width-words.Width(took)-1)).Put(style.Plain, " ").Put(style.Dim, took)
	}
	return l.String()
}

// cells are the states of a step in each column of the chart, "" where it was
// not at work. No time is too short to be seen.
func (m *Model) cells(s *timeline.Step) []runner.State {
	width, span := m.chartWidth(), m.span()
	at := func(t time.Time) int { return int(t.Sub(m.run.Start()) * time.Duration(width) / span) }
	var cells []runner.State
	for _, p := range s.Spans {
		if _, drawn := bars[p.State]; !drawn {
			continue
		}
		to := p.To
		if to.IsZero() {
			to = m.now
		}
		from := min(max(at(p.From), 0), width-1)
		end := min(max(at(to), from+1), width)
		for len(cells) < end {
			cells = append(cells, "")
		}
		for i := from; i < end; i++ {
			cells[i] = p.State
		}
	}
	return cells
}

// legend says what the chart's characters mean.
func (m *Model) legend() string {
	l := m.Line(m.width).To(2)
	for _, s := range []runner.State{runner.StateRunning, runner.StateHolding, runner.StateRetrying} {
		b := bars[s]
		text := m.Sign(b.unicode, b.ascii) + " " + string(s)
		if l.Room() < words.Width(text)+2 {
			return l.String()
		}
		l.Put(b.role, text).Put(style.Plain, "  ")
	}
	if path := m.run.Critical(m.now); len(path) > 0 {
		for i := range path {
			path[i] = words.Line(path[i])
		}
		text := m.Sign("◆", "*") + " critical: "
		if l.Room() > words.Width(text)+10 {
			l.Put(style.Mark, text).Put(style.Plain, strings.Join(path, m.Sign(" → ", " > ")))
		}
	}
	return l.String()
}
