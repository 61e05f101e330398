package fleetview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
)

type frame struct{ *model }

// low is the height under which less is said of what has the cursor.
const low = 16

// detailHeight is how many lines say more of what has the cursor.
func (m *model) detailHeight() int {
	switch {
	case m.height < low:
		return 1
	case m.height < 30:
		return 3
	}
	return 5
}

// bodyHeight is how many rows are shown.
func (m *model) bodyHeight() int { return max(m.height-5-m.detailHeight(), 1) }

func (f frame) draw() string {
	lines := f.header()
	if f.help {
		all := f.helpLines()
		height := max(f.height-4, 1)
		f.helpTop = min(f.helpTop, max(len(all)-height, 0))
		lines = append(lines, all[f.helpTop:min(f.helpTop+height, len(all))]...)
		return f.fill(lines)
	}
	role, banner := f.banner()
	lines = append(lines, f.Line(f.width).Put(style.Plain, " ").Put(role, banner).String())
	lines = append(lines, f.body()...)
	return f.fill(lines)
}

// fill makes the frame as high as the terminal is: what is said of the cursor and the
// footer stand at its end.
func (f frame) fill(lines []string) string {
	var below []string
	if !f.help {
		below = f.detail(f.detailHeight())
	}
	height := max(f.height-1, 0)
	most := max(height-len(below), 0)
	for len(lines) < most {
		lines = append(lines, "")
	}
	lines = append(lines[:most], below...)
	return strings.Join(append(lines[:min(len(lines), height)], f.footer()), "\n")
}

// body is the part of the rows that has room.
func (f frame) body() []string {
	if f.x.State == "" {
		return []string{f.Line(f.width).Put(style.Dim, "   waiting for the run to begin").String()}
	}
	rows, height := f.rows(), f.bodyHeight()
	if len(rows) == 0 {
		text := "nothing failed"
		if f.filter != "" {
			text = "nothing matches the filter " + f.filter
		}
		return []string{f.Line(f.width).Put(style.Dim, "   "+text).String()}
	}
	top := f.scrolled(rows, height)
	lines := make([]string, 0, height)
	for _, r := range rows[top:min(top+height, len(rows))] {
		lines = append(lines, r.draw())
	}
	return lines
}

// scrolled is the first row that is shown. Without a cursor that follows what happens.
func (m *model) scrolled(rows []row, height int) int {
	most := max(len(rows)-height, 0)
	if m.cursor == "" {
		return 0
	}
	return min(max(m.top, 0), most)
}

// header says what runs, how it stands, and what makes the view other than it is by itself.
func (f frame) header() []string {
	e := f.x.First
	title := f.Line(f.width).Put(style.Plain, " ").Put(style.Strong, words.Line(e.Fleet))
	right := words.Join("  ", words.Prefixed("plan ", words.Line(e.Plan)), words.Prefixed("engine ", words.Line(e.Engine)), words.Line(e.Run), words.Prefixed("kplan ", f.Version))
	if room := title.Room() - 3; room >= 8 {
		right = f.Cut(right, room)
		title.To(f.width-words.Width(right)-1).Put(style.Dim, right)
	}
	return []string{title.String(), f.status(), f.rule()}
}

// status says how the run stands.
func (f frame) status() string {
	l := f.Line(f.width).Put(style.Plain, " ")
	if f.x.State == "" {
		return l.Put(style.Dim, "starting").String()
	}
	role, sign := f.spinning(f.x.State)
	word := string(f.x.State)
	if f.x.State == fleet.Running {
		switch {
		case f.x.Stop != nil:
			role, word = style.Stop, "stopping"
		case f.x.Control.Paused:
			role, word = style.Wait, "paused"
		}
	}
	l.Put(role, sign+" "+word).Put(style.Plain, "  "+words.Brief(f.now.Sub(f.x.Started)))
	if f.x.Round > 1 {
		l.Put(style.Dim, fmt.Sprintf("  round %d", f.x.Round))
	}
	n := f.x.Counts()
	if f.width >= 60 {
		l.Put(style.Plain, "  ")
		f.bar(l, n, len(f.x.Clusters), min(f.width/6, 24))
	}
	l.Put(style.Plain, fmt.Sprintf("  %d/%d", over(n), len(f.x.Clusters)))
	room := l.Room()
	for s, k := range n {
		room -= len(fmt.Sprintf("  * %d %s", k, s))
	}
	for _, s := range fleet.States {
		if n[s] == 0 {
			continue
		}
		role, sign := f.sign(s)
		text := fmt.Sprintf("%s %d", sign, n[s])
		if room >= 0 {
			text += " " + stateWord(s)
		}
		if l.Room() < words.Width(text)+2 {
			break
		}
		l.Put(style.Plain, "  ").Put(role, text)
	}
	return l.String()
}

// bar draws how much of the fleet is over, and how that went.
func (f frame) bar(l *style.Line, counts map[fleet.State]int, total, width int) {
	begin, n := l.Used(), 0
	for _, s := range fleet.States {
		if s.Over() && total > 0 {
			n += counts[s]
			full, _ := f.Bar(n, total, width)
			role, _ := f.sign(s)
			l.Put(role, strings.Repeat(f.Sign("█", "#"), words.Width(full)-(l.Used()-begin)))
		}
	}
	_, empty := f.Bar(l.Used()-begin, width, width)
	l.Put(style.Dim, empty)
}

// rule is the line below the header.
func (f frame) rule() string {
	dash := f.Sign("─", "-")
	l := f.Line(f.width).Put(style.Dim, dash).Put(style.Accent, fmt.Sprintf("[%s in %s]", words.Count(len(f.x.Clusters), "cluster"), words.Count(len(f.x.Waves), "wave")))
	role, right := f.mood()
	if n := l.Room() - words.Width(right) - 3; right != "" && n >= 0 {
		l.Put(style.Dim, strings.Repeat(dash, n)).Put(role, " "+right+" ").Put(style.Dim, dash)
	}
	return l.Put(style.Dim, strings.Repeat(dash, l.Room())).String()
}

// mood says what makes the view other than it is by itself.
func (f frame) mood() (style.Role, string) {
	filter := ""
	if !f.typing {
		filter = words.Prefixed("filter: ", f.filter)
	}
	if f.failed {
		filter = words.Join(", ", "failures only", filter)
	}
	switch {
	case f.help:
		return style.Accent, "help"
	case f.paused:
		return style.Wait, "replay paused"
	case filter != "":
		return style.Accent, filter
	case f.Replay && !f.ended():
		return style.Dim, fmt.Sprintf("replay %gx", f.Speed)
	}
	return style.Dim, ""
}

// footer asks a question, shows a notice, or says which keys there are.
func (f frame) footer() string {
	l := f.Line(f.width).Put(style.Plain, " ")
	switch {
	case f.ask != nil:
		keys := "[y/n]"
		return l.Put(style.Wait, f.Cut(f.ask.text, max(l.Room()-len(keys)-2, 4))).Put(style.Plain, "  ").Put(style.Accent, keys).String()
	case f.typing:
		return l.Put(style.Accent, "/").Put(style.Plain, f.filter).Put(style.Accent, f.Sign("▏", "_")).
			Put(style.Dim, "  enter keeps it, esc drops it").String()
	case f.now.Before(f.flash.until):
		return l.Put(f.flash.role, words.Line(f.flash.text)).String()
	}
	first := true
	for _, b := range f.hints() {
		if l.Room() < words.Width(b.keys[0])+words.Width(b.short)+3 {
			break
		}
		if !first {
			l.Put(style.Plain, "  ")
		}
		first = false
		key := tui.KeyName(f.Theme, b.keys[0])
		if b.short == "move" {
			key = f.Sign("↑↓", "jk")
		}
		l.Put(style.Strong, key).Put(style.Dim, " "+b.short)
	}
	return l.String()
}

// hints are the bindings that the footer names: first what only now makes sense.
func (f frame) hints() []binding {
	var first, rest []binding
	for _, b := range bindings() {
		switch {
		case b.short == "" || !b.when.fits(f.model):
		case slices.Contains([]string{"stop", "help", "approve", "resume"}, b.short):
			first = append(first, b)
		default:
			rest = append(rest, b)
		}
	}
	return append(first, rest...)
}
