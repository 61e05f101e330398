package tui

import (
	"fmt"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// low is the height under which the header has no line for the plan alone.
const low = 16

// View draws a frame: exactly as many lines as the terminal has, none wider.
func (m *Model) View() string {
	lines := m.header()
	lines = append(lines, m.body(m.bodyHeight())...)
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:max(m.height-1, 0)], m.footer())
	return strings.Join(lines, "\n")
}

func (m *Model) headerHeight() int {
	if m.height < low {
		return 2
	}
	return 3
}

// bodyHeight is how many lines are between header and footer.
func (m *Model) bodyHeight() int { return max(m.height-m.headerHeight()-1, 1) }

func (m *Model) body(height int) []string {
	switch {
	case m.help:
		return m.helpPage(height)
	case m.run.Execution().State() == "":
		return []string{"", m.Line(m.width).Put(style.Dim, "  waiting for the run to begin").String()}
	}
	switch m.view {
	case viewTime:
		return m.chart(height)
	case viewLog:
		return m.logs(height)
	case viewSteps, viewHooks, views:
	}
	items := m.items()
	if len(items) == 0 {
		return []string{"", m.Line(m.width).Put(style.Dim, "  "+m.nothing()).String()}
	}
	lines := m.lists[m.view].place(items, height, m.focus()).draw(items, height)
	if m.cols() == m.width {
		return lines
	}
	return m.beside(lines, m.pane(m.width-m.cols()-1, height), height)
}

// wide is the width from which the list of steps leaves room for a log beside it.
const wide = 150

// cols is the width of the list that is shown.
func (m *Model) cols() int {
	if m.view == viewSteps && m.width >= wide {
		return m.width * 3 / 5
	}
	return m.width
}

// beside puts two columns beside each other.
func (m *Model) beside(left, right []string, height int) []string {
	lines := make([]string, height)
	for i := range lines {
		var b strings.Builder
		used := 0
		if i < len(left) {
			b.WriteString(left[i])
			used = words.Width(left[i])
		}
		b.WriteString(strings.Repeat(" ", max(m.cols()-used, 0)) + m.Paint(style.Dim, m.Sign("│", "|")))
		if i < len(right) {
			b.WriteString(right[i])
		}
		lines[i] = b.String()
	}
	return lines
}

// nothing says why there is nothing to show.
func (m *Model) nothing() string {
	switch {
	case m.filter != "":
		return "nothing matches the filter " + m.filter
	case m.view == viewHooks:
		return "no webhook has held a request or been waited for"
	}
	return "the plan has no steps"
}

// items are those of the list that is shown.
func (m *Model) items() []item {
	switch m.view {
	case viewHooks:
		return m.laneItems()
	case viewTime:
		return m.spanItems()
	case viewSteps, viewLog, views:
	}
	return m.stepItems()
}

// header tells what runs where, how it stands, and which views there are.
func (m *Model) header() []string {
	x := m.run.Execution()
	if m.height < low {
		return []string{m.status(words.Line(x.Plan())), m.tabs()}
	}
	title := m.Line(m.width).Put(style.Plain, " ").Put(style.Strong, words.Line(x.Plan()))
	right := words.Join("  ", words.Line(m.about), "kplan "+m.Version)
	if room := title.Room() - 3; room >= 8 {
		if words.Width(right) > room {
			right = m.Cut(words.Line(m.about), room)
		}
		title.To(m.width-words.Width(right)-1).Put(style.Dim, right)
	}
	return []string{title.String(), m.status(""), m.tabs()}
}

// status is how the run stands.
func (m *Model) status(name string) string {
	x := m.run.Execution()
	state, word := x.State(), string(x.State())
	if x.Paused() {
		state, word = runner.StateHolding, "paused"
	}
	if x.Err() != "" && state == runner.StateRunning {
		state, word = runner.StateCancelled, "stopping"
	}
	l := m.Line(m.width).Put(style.Plain, " ")
	if state == "" {
		return l.Put(style.Dim, "starting").String()
	}
	role, g := m.sign(state)
	l.Put(role, g+" "+word)
	if name != "" {
		l.Put(style.Plain, " ").Put(style.Strong, m.Cut(name, max(m.width-30, 8)))
	}
	l.Put(style.Plain, "  "+words.Brief(m.now.Sub(m.run.Start())))
	counts, total, over := x.Counts(), len(x.Steps()), 0
	for s, n := range counts {
		if s.Terminal() {
			over += n
		}
	}
	if m.width >= 60 {
		l.Put(style.Plain, "  ")
		m.bar(l, counts, total, min(m.width/6, 24))
	}
	l.Put(style.Plain, fmt.Sprintf("  %d/%d", over, total))
	m.counts(l, counts)
	return l.String()
}

// bar draws how much of the plan is over, and how that went: good, bad, and what
// never ran beside each other.
func (m *Model) bar(l *style.Line, counts map[runner.State]int, total, width int) {
	begin, n := l.Used(), 0
	for _, s := range runner.States {
		if s.Terminal() && total > 0 {
			n += counts[s]
			full, _ := m.Bar(n, total, width)
			role, _ := m.sign(s)
			l.Put(role, strings.Repeat(m.Sign("█", "#"), words.Width(full)-(l.Used()-begin)))
		}
	}
	_, empty := m.Bar(l.Used()-begin, width, width)
	l.Put(style.Dim, empty)
}

// counts says how many steps are in each state: with words where there is room.
func (m *Model) counts(l *style.Line, counts map[runner.State]int) {
	room := l.Room()
	for _, s := range runner.States {
		if counts[s] > 0 {
			room -= len(fmt.Sprintf("  * %d %s", counts[s], s))
		}
	}
	for _, s := range runner.States {
		if counts[s] == 0 {
			continue
		}
		role, g := m.sign(s)
		text := fmt.Sprintf("%s %d", g, counts[s])
		if room >= 0 {
			text += " " + string(s)
		}
		if l.Room() < words.Width(text)+2 {
			return
		}
		l.Put(style.Plain, "  ").Put(role, text)
	}
}

// tabs are the views, the one that is shown in brackets, and what is special
// about it.
func (m *Model) tabs() string {
	names := [views]string{"steps", "timeline", "webhooks", "log"}
	if m.width < 56 {
		names = [views]string{"steps", "time", "hooks", "log"}
	}
	dash := m.Sign("─", "-")
	l := m.Line(m.width).Put(style.Dim, dash)
	for v, name := range names {
		text := fmt.Sprintf("%d %s", v+1, name)
		if view(v) == m.view && !m.help {
			l.Put(style.Accent, "["+text+"]")
		} else {
			l.Put(style.Plain, " "+text+" ")
		}
		if m.width >= 56 {
			l.Put(style.Dim, dash)
		}
	}
	role, right := m.mood()
	if n := l.Room() - words.Width(right) - 3; right != "" && n >= 0 {
		l.Put(style.Dim, strings.Repeat(dash, n)).Put(role, " "+right+" ").Put(style.Dim, dash)
	}
	return l.Put(style.Dim, strings.Repeat(dash, l.Room())).String()
}

// mood says what makes the view other than it is by itself.
func (m *Model) mood() (style.Role, string) {
	switch {
	case m.help:
		return style.Accent, "help"
	case m.held && m.Replay:
		return style.Wait, "paused"
	case m.held:
		return style.Wait, "display paused, " + words.Count(len(m.backlog), "event") + " behind"
	case m.filter != "" && !m.typing:
		return style.Accent, "filter: " + m.filter
	case m.Replay && !m.Ended():
		return style.Dim, fmt.Sprintf("replay %gx", m.Speed)
	case m.lists[m.view].follow && !m.Ended():
		return style.Dim, "following"
	}
	return style.Dim, ""
}

// footer asks, tells, or says which keys there are.
func (m *Model) footer() string {
	l := m.Line(m.width).Put(style.Plain, " ")
	switch {
	case m.ask != nil:
		keys := "[y/n]"
		text := m.Cut(m.ask.text, max(l.Room()-len(keys)-2, 4))
		return l.Put(style.Wait, text).Put(style.Plain, "  ").Put(style.Accent, keys).String()
	case m.typing:
		return l.Put(style.Accent, "/").Put(style.Plain, m.filter).Put(style.Accent, m.Sign("▏", "_")).
			Put(style.Dim, "  enter keeps it, esc drops it").String()
	case m.beat.Before(m.flash.until):
		return l.Put(m.flash.role, words.Line(m.flash.text)).String()
	}
	for i, b := range m.hints() {
		text := b.short
		if l.Room() < words.Width(b.keys[0])+words.Width(text)+3 {
			break
		}
		if i > 0 {
			l.Put(style.Plain, "  ")
		}
		l.Put(style.Strong, m.keyName(b)).Put(style.Dim, " "+text)
	}
	return l.String()
}
