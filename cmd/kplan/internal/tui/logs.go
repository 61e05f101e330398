package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// entry is a text of a step's log: what it or its pods wrote, what it was at, and
// how its attempts went.
type entry struct {
	at   time.Time
	role style.Role
	who  string // what wrote it; "" is kplan
	text string
}

// entries are what there is of a step's log, in order of time.
func (m *Model) entries(s *timeline.Step) []entry {
	var all []entry
	add := func(at time.Time, role style.Role, who, text string) { all = append(all, entry{at, role, who, text}) }
	for _, a := range s.Attempts { // what comes first is first of what happened at once
		add(a.From, style.Busy, "", fmt.Sprintf("attempt %d begins", a.N))
	}
	for _, n := range s.Notes {
		add(n.Time, style.Dim, "", n.Text)
	}
	for _, l := range s.Logs {
		add(l.Time, style.Plain, l.Object, l.Text)
	}
	for _, p := range s.Spans {
		switch {
		case p.State == runner.StateHolding:
			add(p.From, style.Wait, "", "a request is held")
		case p.State.Terminal() && p.State != runner.StateFailed:
			role, _ := m.sign(p.State)
			add(p.From, role, "", string(p.State))
		}
	}
	for _, a := range s.Attempts {
		if a.Error != "" {
			add(a.To, style.Bad, "", words.Join("\nhint: ", fmt.Sprintf("attempt %d failed: %s", a.N, a.Error), a.Hint))
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return a.at.Compare(b.at) })
	if s.LogsDropped > 0 {
		all = slices.Insert(all, 0, entry{role: style.Dim, text: fmt.Sprintf("… %s dropped here; --record keeps them", words.Count(s.LogsDropped, "older log"))})
	}
	if m.filter != "" {
		all = slices.DeleteFunc(all, func(e entry) bool { return !m.matches(e.who, e.text) })
	}
	return all
}

// logs shows the log of one step. Where the list stands is counted in entries.
func (m *Model) logs(height int) []string {
	s := m.selected()
	if s == nil {
		return []string{"", m.Line(m.width).Put(style.Dim, "  the plan has no steps").String()}
	}
	role, g := m.sign(s.State)
	head := m.Line(m.width).To(2).Put(role, g+" "+string(s.State)).Put(style.Plain, "  ").Put(style.Strong, words.Line(s.Name))
	if _, note := m.note(s); note != "" {
		head.Put(style.Plain, "  ").Put(style.Dim, note)
	}
	lines, rows := []string{head.String()}, max(height-1, 1)
	all := m.entries(s)
	l := m.lists[viewLog]
	if l.follow {
		return append(lines, m.tail(all, rows, m.width)...)
	}
	first := min(max(l.top, 0), max(len(all)-1, 0))
	var body []string
	for i := first; i < len(all) && len(body) < rows; i++ {
		body = append(body, m.entry(all, i, i == first, m.width)...)
	}
	return append(lines, body[:min(len(body), rows)]...)
}

// tail gives the last lines of a log.
func (m *Model) tail(all []entry, rows, width int) []string {
	var body []string
	for i := len(all) - 1; i >= 0 && len(body) < rows; i-- {
		body = append(m.entry(all, i, false, width), body...)
	}
	return body[max(len(body)-rows, 0):]
}

// entry draws one entry: what wrote it on a line of its own, where that changes,
// and its text wrapped.
func (m *Model) entry(all []entry, i int, first bool, width int) []string {
	e, at := all[i], ""
	var lines []string
	if before := i == 0 || all[i-1].who != e.who; (before || first) && (e.who != "" || i > 0) {
		who := "kplan"
		if e.who != "" {
			who = words.Line(e.who)
		}
		dash := m.Sign("┄┄ ", "-- ")
		lines = append(lines, m.Line(width).To(2).Put(style.Dim, dash).Put(style.Accent, who).String())
	}
	begin := 2
	if width >= 60 {
		begin = 12
		if !e.at.IsZero() {
			at = e.at.Local().Format(time.TimeOnly)
		}
	}
	for _, text := range words.Wrap(strings.TrimRight(words.Clean(e.text), "\n"), width-begin-1) {
		lines = append(lines, m.Line(width).To(2).Put(style.Dim, at).To(begin).Put(e.role, text).String())
		at = ""
	}
	return lines
}

// pane shows the end of the log of the step under the cursor, beside the list.
func (m *Model) pane(width, height int) []string {
	s := m.selected()
	if s == nil {
		return nil
	}
	head := m.Line(width).To(2).Put(style.Dim, "log of ").Put(style.Strong, words.Line(s.Name))
	return append([]string{head.String()}, m.tail(m.entries(s), max(height-1, 1), width)...)
}

// scrollLog moves the log by entries; at its end it follows.
func (m *Model) scrollLog(by int) {
	s := m.selected()
	if s == nil {
		return
	}
	l := &m.lists[viewLog]
	all, rows := m.entries(s), max(m.bodyHeight()-1, 1)
	top := l.top
	last := len(all) // the first entry of the last page
	for n := 0; last > 0; last-- {
		if n += len(m.entry(all, last-1, false, m.width)); n > rows {
			break
		}
	}
	if l.follow {
		top = last
	}
	l.top = max(top+by, 0)
	l.follow = l.top >= last
}
