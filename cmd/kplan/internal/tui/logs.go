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

// log is the view of the log of one step. Where it stands is counted in entries.
type log struct {
	*state
	position
	steps  *stepList
	pinned string // the step whose log is shown; "" follows the cursor in steps
}

// shown returns the step whose log is shown; nil when there is none.
func (v *log) shown() *timeline.Step {
	if v.pinned != "" {
		return v.run.Step(v.pinned)
	}
	return v.steps.selected()
}

// entries returns what there is of a step's log, in order of time.
func (s *state) entries(step *timeline.Step) []entry {
	var all []entry
	add := func(at time.Time, role style.Role, who, text string) { all = append(all, entry{at, role, who, text}) }
	for _, a := range step.Attempts { // what comes first is first of what happened at once
		add(a.From, style.Busy, "", fmt.Sprintf("attempt %d begins", a.N))
	}
	for _, n := range step.Notes {
		add(n.Time, style.Dim, "", n.Text)
	}
	for _, l := range step.Logs {
		add(l.Time, style.Plain, l.Object, l.Text)
	}
	for _, p := range step.Spans {
		switch {
		case p.State == runner.StateHolding:
			add(p.From, style.Wait, "", "a request is held")
		case p.State.Terminal() && p.State != runner.StateFailed:
			role, _ := s.sign(p.State)
			add(p.From, role, "", string(p.State))
		}
	}
	for _, a := range step.Attempts {
		if a.Error != "" {
			add(a.To, style.Bad, "", words.Join("\nhint: ", fmt.Sprintf("attempt %d failed: %s", a.N, a.Error), a.Hint))
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return a.at.Compare(b.at) })
	if step.LogsDropped > 0 {
		all = slices.Insert(all, 0, entry{role: style.Dim, text: fmt.Sprintf("… %s dropped here; --record keeps them", words.Count(step.LogsDropped, "older log"))})
	}
	if s.filter.text != "" {
		all = slices.DeleteFunc(all, func(e entry) bool { return !s.filter.matches(e.who, e.text) })
	}
	return all
}

func (v *log) draw(height int) []string {
	s := v.shown()
	if s == nil {
		return v.message("the plan has no steps")
	}
	role, sign := v.sign(s.State)
	head := v.Line(v.width).To(2).Put(role, sign+" "+string(s.State)).Put(style.Plain, "  ").Put(style.Strong, words.Line(s.Name))
	if _, note := v.note(s); note != "" {
		head.Put(style.Plain, "  ").Put(style.Dim, note)
	}
	lines, rows := []string{head.String()}, max(height-1, 1)
	all := v.entries(s)
	if v.follow {
		return append(lines, v.lastLines(all, rows, v.width)...)
	}
	first := min(max(v.top, 0), max(len(all)-1, 0))
	var body []string
	for i := first; i < len(all) && len(body) < rows; i++ {
		body = append(body, v.entry(all, i, i == first, v.width)...)
	}
	return append(lines, body[:min(len(body), rows)]...)
}

// scroll moves by entries; at the end of the log it follows.
func (v *log) scroll(m motion, height int) {
	switch m.unit {
	case toEnd:
		v.follow = m.by > 0
		if !v.follow {
			v.top = 0
		}
		return
	case byPage:
		m.by *= max(height-2, 1)
	case byRow, byWheel:
	}
	s := v.shown()
	if s == nil {
		return
	}
	all, rows := v.entries(s), max(height-1, 1)
	last := len(all) // the first entry of the last page
	for n := 0; last > 0; last-- {
		if n += len(v.entry(all, last-1, false, v.width)); n > rows {
			break
		}
	}
	if v.follow {
		v.top = last
	}
	v.top = max(v.top+m.by, 0)
	v.follow = v.top >= last
}

func (s *state) lastLines(all []entry, rows, width int) []string {
	var body []string
	for i := len(all) - 1; i >= 0 && len(body) < rows; i-- {
		body = append(s.entry(all, i, false, width), body...)
	}
	return body[max(len(body)-rows, 0):]
}

// entry draws one entry: what wrote it on a line of its own, where that changes,
// and its text wrapped.
func (s *state) entry(all []entry, i int, first bool, width int) []string {
	e, at := all[i], ""
	var lines []string
	if before := i == 0 || all[i-1].who != e.who; (before || first) && (e.who != "" || i > 0) {
		who := "kplan"
		if e.who != "" {
			who = words.Line(e.who)
		}
		dash := s.Sign("┄┄ ", "-- ")
		lines = append(lines, s.Line(width).To(2).Put(style.Dim, dash).Put(style.Accent, who).String())
	}
	begin := 2
	if width >= 60 {
		begin = 12
		if !e.at.IsZero() {
			at = e.at.Local().Format(time.TimeOnly)
		}
	}
	for _, text := range words.Wrap(strings.TrimRight(words.Clean(e.text), "\n"), width-begin-1) {
		lines = append(lines, s.Line(width).To(2).Put(style.Dim, at).To(begin).Put(e.role, text).String())
		at = ""
	}
	return lines
}

// beside shows the end of the log of a step, beside the list of steps.
func (s *state) beside(step *timeline.Step, width, height int) []string {
	if step == nil {
		return nil
	}
	head := s.Line(width).To(2).Put(style.Dim, "log of ").Put(style.Strong, words.Line(step.Name))
	return append([]string{head.String()}, s.lastLines(s.entries(step), max(height-1, 1), width)...)
}
