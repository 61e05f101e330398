package tui

import (
	"fmt"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

type frame struct{ *Model }

func (f frame) draw() string {
	lines := append(f.header(), f.body(f.bodyHeight())...)
	for len(lines) < f.height-1 {
		lines = append(lines, "")
	}
	return strings.Join(append(lines[:max(f.height-1, 0)], f.footer()), "\n")
}

func (f frame) body(height int) []string {
	if !f.help.open && f.run.Execution().State() == "" {
		if f.Member != "" {
			return f.message("nothing is told of the plan on this cluster yet")
		}
		return f.message("waiting for the run to begin")
	}
	lines, cols := f.pane().draw(height), f.steps.cols()
	if f.help.open || f.view != viewSteps || cols == f.width || len(f.state.steps()) == 0 {
		return lines
	}
	right := f.beside(f.steps.selected(), f.width-cols-1, height)
	both := make([]string, height)
	for i := range both {
		if i < len(lines) {
			both[i] = lines[i]
		}
		both[i] = words.Pad(both[i], cols) + f.Paint(style.Dim, f.Sign("│", "|"))
		if i < len(right) {
			both[i] += right[i]
		}
	}
	return both
}

// header says what runs where, how it stands, and which views there are.
func (f frame) header() []string {
	name := words.Line(words.Join(": ", f.Member, f.run.Execution().Plan()))
	if f.height < low {
		return []string{f.status(name), f.tabs()}
	}
	title := f.Line(f.width).Put(style.Plain, " ").Put(style.Strong, name)
	right := words.Join("  ", words.Line(f.run.About()), "kplan "+f.Version)
	if room := title.Room() - 3; room >= 8 {
		if words.Width(right) > room {
			right = f.Cut(words.Line(f.run.About()), room)
		}
		title.To(f.width-words.Width(right)-1).Put(style.Dim, right)
	}
	return []string{title.String(), f.status(""), f.tabs()}
}

func (f frame) status(name string) string {
	x := f.run.Execution()
	state, word := x.State(), string(x.State())
	if x.Paused() {
		state, word = runner.StateHolding, "paused"
	}
	if x.Err() != "" && state == runner.StateRunning {
		state, word = runner.StateCancelled, "stopping"
	}
	l := f.Line(f.width).Put(style.Plain, " ")
	if state == "" {
		return l.Put(style.Dim, "starting").String()
	}
	role, g := f.sign(state)
	l.Put(role, g+" "+word)
	if name != "" {
		l.Put(style.Plain, " ").Put(style.Strong, f.Cut(name, max(f.width-30, 8)))
	}
	l.Put(style.Plain, "  "+words.Brief(f.now.Sub(f.run.Start())))
	counts, total, over := x.Counts(), len(x.Steps()), 0
	for s, n := range counts {
		if s.Terminal() {
			over += n
		}
	}
	if f.width >= 60 {
		l.Put(style.Plain, "  ")
		f.bar(l, counts, total, min(f.width/6, 24))
	}
	l.Put(style.Plain, fmt.Sprintf("  %d/%d", over, total))
	f.counts(l, counts)
	if done, all := x.Fetching(); done < all && state == runner.StateRunning {
		l.Put(style.Dim, fmt.Sprintf("  fetched %d/%d", done, all))
	}
	return l.String()
}

// bar draws how much of the plan is over, and how that went: good, bad, and what
// never ran beside each other.
func (f frame) bar(l *style.Line, counts map[runner.State]int, total, width int) {
	begin, n := l.Used(), 0
	for _, s := range runner.States {
		if s.Terminal() && total > 0 {
			n += counts[s]
			full, _ := f.Bar(n, total, width)
			role, _ := f.sign(s)
			l.Put(role, strings.Repeat(f.Sign("█", "#"), words.Width(full)-(l.Used()-begin)))
		}
	}
	_, empty := f.Bar(l.Used()-begin, width, width)
	l.Put(style.Dim, empty)
}

// counts says how many steps are in each state: with words where there is room.
func (f frame) counts(l *style.Line, counts map[runner.State]int) {
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
		role, g := f.sign(s)
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

// tabs names the views, the one that is shown in brackets, and says what is special
// about it.
func (f frame) tabs() string {
	names := [views]string{"steps", "timeline", "webhooks", "log"}
	if f.width < 56 {
		names = [views]string{"steps", "time", "hooks", "log"}
	}
	dash := f.Sign("─", "-")
	l := f.Line(f.width).Put(style.Dim, dash)
	for v, name := range names {
		text := fmt.Sprintf("%d %s", v+1, name)
		if view(v) == f.view && !f.help.open {
			l.Put(style.Accent, "["+text+"]")
		} else {
			l.Put(style.Plain, " "+text+" ")
		}
		if f.width >= 56 {
			l.Put(style.Dim, dash)
		}
	}
	role, right := f.mood()
	if n := l.Room() - words.Width(right) - 3; right != "" && n >= 0 {
		l.Put(style.Dim, strings.Repeat(dash, n)).Put(role, " "+right+" ").Put(style.Dim, dash)
	}
	return l.Put(style.Dim, strings.Repeat(dash, l.Room())).String()
}

// mood says what makes the view other than it is by itself.
func (f frame) mood() (style.Role, string) {
	switch {
	case f.help.open:
		return style.Accent, "help"
	case f.paused && f.Replay:
		return style.Wait, "paused"
	case f.paused:
		return style.Wait, "display paused, " + words.Count(len(f.backlog), "event") + " behind"
	case f.filter.text != "" && !f.filter.typing:
		return style.Accent, "filter: " + f.filter.text
	case f.Replay && !f.Ended():
		return style.Dim, fmt.Sprintf("replay %gx", f.Speed)
	case f.panes[f.view].where().follow && !f.Ended():
		return style.Dim, "following"
	}
	return style.Dim, ""
}

// footer asks a question, shows a notice, or says which keys there are.
func (f frame) footer() string {
	l := f.Line(f.width).Put(style.Plain, " ")
	switch {
	case f.ask != nil:
		keys := "[y/n]"
		text := f.Cut(f.ask.text, max(l.Room()-len(keys)-2, 4))
		return l.Put(style.Wait, text).Put(style.Plain, "  ").Put(style.Accent, keys).String()
	case f.filter.typing:
		return l.Put(style.Accent, "/").Put(style.Plain, f.filter.text).Put(style.Accent, f.Sign("▏", "_")).
			Put(style.Dim, "  enter keeps it, esc drops it").String()
	case f.tick.Before(f.flash.until):
		return l.Put(f.flash.role, words.Line(f.flash.text)).String()
	}
	for i, b := range f.hints() {
		if l.Room() < words.Width(b.keys[0])+words.Width(b.short)+3 {
			break
		}
		if i > 0 {
			l.Put(style.Plain, "  ")
		}
		key := f.key(b.keys[0])
		if b.short == "move" {
			key = f.Sign("↑↓", "jk")
		}
		l.Put(style.Strong, key).Put(style.Dim, " "+b.short)
	}
	return l.String()
}

// hints returns the bindings that the footer names: first what only now makes sense.
func (f frame) hints() []binding {
	var first, rest []binding
	for _, b := range bindings() {
		if b.short == "" || !b.when.fits(f.Model) || f.idle(b.short) {
			continue
		}
		switch b.short {
		case "stop", "help", "retry", "end run", "back":
			first = append(first, b)
		default:
			rest = append(rest, b)
		}
	}
	return append(first, rest...)
}

// idle reports whether a key would do nothing just now.
func (f frame) idle(short string) bool {
	s := f.selected()
	switch short {
	case "retry":
		return s == nil || !retryable(s)
	case "skip":
		return s == nil || !skippable(s)
	case "quit":
		return watching.fits(f.Model) && f.width < 100
	case "open":
		return f.view == viewLog
	}
	return false
}
