package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// lanesOf are the webhooks that a step waited for, or that held its requests.
func (m *Model) lanesOf(s *timeline.Step) []*timeline.Webhook {
	var lanes []*timeline.Webhook
	for _, l := range m.run.Webhooks() {
		if l.Cluster == s.Cluster && (stands(s, l) || held(s, l)) {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

func stands(s *timeline.Step, l *timeline.Webhook) bool {
	for _, w := range s.Webhooks {
		if w.Name == l.Name && w.Configuration == l.Configuration && w.Kind == l.Kind {
			return true
		}
	}
	return false
}

func held(s *timeline.Step, l *timeline.Webhook) bool {
	for _, h := range s.Holds {
		if h.Webhook == l.Name && (h.Service == l.Service || h.Service == "") {
			return true
		}
	}
	return false
}

// lane shows a webhook's ladder, the rung that waits, and the requests that it
// holds: those of one step, or of all if s is nil.
func (b *block) lane(l *timeline.Webhook, s *timeline.Step) {
	if s != nil {
		head := b.begin("webhook").Put(style.Strong, words.Line(laneName(l)))
		if l.Service != "" && head.Room() > 20 {
			head.Put(style.Dim, "  Service "+words.Line(l.Service))
		}
		if l.Owner != "" && head.Room() > 20 {
			head.Put(style.Dim, "  "+words.Line(l.Owner))
		}
		b.add(head)
	}
	ladder := l.Ladder()
	b.ladder(ladder)
	if r, ok := lowest(ladder); ok {
		role, _ := b.m.rungSign(r.State)
		text := fmt.Sprintf("%s for %s", r.State, words.Brief(b.m.now.Sub(r.From)))
		known := s != nil && r.Cause != "" && strings.Contains(s.Error, r.Cause)
		if !known {
			text = words.Join(": ", text, r.Cause)
		}
		b.text(r.Name, role, text)
		if !known {
			b.text("means", style.Plain, r.Explanation)
		}
	}
	b.requests(l, s)
}

// lowest is the lowest rung that was not reached.
func lowest(ladder []timeline.Rung) (timeline.Rung, bool) {
	for _, r := range ladder {
		if r.State != timeline.Ready {
			return r, r.State != ""
		}
	}
	return timeline.Rung{}, false
}

// ladder draws the rungs beside each other: their names where there is room.
func (b *block) ladder(ladder []timeline.Rung) {
	if len(ladder) == 0 {
		return
	}
	l := b.begin("ladder")
	room := l.Room()
	for _, r := range ladder {
		room -= len(r.Name) + 3 // with its sign and a space on both sides
	}
	gap := " "
	if room >= len(ladder) {
		gap = "  "
	}
	for i, r := range ladder {
		role, g := b.m.rungSign(r.State)
		if i > 0 {
			l.Put(style.Plain, gap)
		}
		l.Put(role, g)
		if room >= -1 {
			l.Put(role, " "+r.Name)
		}
	}
	b.add(l)
}

// requests says how many requests the webhook holds or held, and for how long.
func (b *block) requests(l *timeline.Webhook, s *timeline.Step) {
	var (
		now, all, failed, sends int
		oldest                  time.Time
		longest                 time.Duration
		last                    *timeline.Hold
	)
	for _, h := range l.Holds {
		if s != nil && h.Step != s.Name {
			continue
		}
		all++
		if h.To.IsZero() {
			now++
			if oldest.IsZero() {
				oldest = h.From
			}
			if last == nil {
				last = h
			}
			continue
		}
		sends += h.Sends
		longest = max(longest, h.To.Sub(h.From))
		if h.Error != "" {
			failed++
		}
	}
	switch {
	case now > 0:
		text := fmt.Sprintf("%s for %s", words.Count(now, "request"), words.Brief(b.m.now.Sub(oldest)))
		if last.Object != "" {
			text += ": " + last.Object
			if now > 1 {
				text += fmt.Sprintf(" and %d more", now-1)
			}
		}
		if failed > 0 {
			text += fmt.Sprintf("; %d given up", failed)
		}
		b.text("holds", style.Wait, text)
		r, ok := lowest(l.Ladder())
		if last.Cause != "" && (!ok || r.Cause != last.Cause) {
			b.text("", style.Dim, "last answer: "+last.Cause)
		}
		if r.Explanation == "" {
			b.text("means", style.Plain, last.Explanation)
		}
	case all > 0:
		text := fmt.Sprintf("%s, longest %s, %s", words.Count(all, "request"), words.Brief(longest), words.Count(sends, "send"))
		if failed > 0 {
			text += fmt.Sprintf("; %d given up", failed)
		}
		b.text("held", style.Dim, text)
	}
}

func laneKey(l *timeline.Webhook) string {
	return l.Cluster + "\n" + l.Configuration + "\n" + l.Kind + "\n" + l.Name
}

// shownLanes are the webhooks that the filter lets through.
func (m *Model) shownLanes() []*timeline.Webhook {
	var all []*timeline.Webhook
	for _, l := range m.run.Webhooks() {
		if m.matches(l.Name, l.Kind, l.Configuration, l.Service, l.Owner, l.Cluster) {
			all = append(all, l)
		}
	}
	return all
}

// laneFocus is the webhook that holds most requests, else one that waits.
func (m *Model) laneFocus() string {
	best, rank := "", -1
	for _, l := range m.shownLanes() {
		r := 0
		if low, ok := lowest(l.Ladder()); ok && low.State != timeline.Unknown && !m.Ended() {
			r = 1
		}
		if l.Held > 0 {
			r = 1 + l.Held
		}
		if r > rank {
			best, rank = laneKey(l), r
		}
	}
	return best
}

func (m *Model) laneItems() []item {
	lanes := m.shownLanes()
	items := make([]item, len(lanes))
	for i, l := range lanes {
		items[i] = item{key: laneKey(l), head: func(selected bool) string { return m.laneLine(l, selected) }}
		open, said := m.lists[viewHooks].open[laneKey(l)]
		if !said {
			_, waits := lowest(l.Ladder())
			open = l.Held > 0 || waits
		}
		if open {
			items[i].more = m.laneDetail(l)
		}
	}
	return items
}

// laneLine is the line of a webhook: how it stands in a word, its name and where
// it runs.
func (m *Model) laneLine(l *timeline.Webhook, selected bool) string {
	line := m.cursor(m.Line(m.width), selected)
	role, g, word := m.laneState(l)
	line.Put(role, g+" ").Cell(role, word, 8)
	name := style.Plain
	if selected {
		name = style.Strong
	}
	text := words.Line(laneName(l))
	if m.width < 60 {
		return line.Put(name, text).String()
	}
	line.Cell(name, text, max(m.width*2/5, 20))
	for _, r := range l.Ladder() {
		role, g := m.rungSign(r.State)
		line.Put(role, g).Put(style.Plain, " ")
	}
	if held := l.HoldTime(m.now); held > 0 {
		line.To(12+max(m.width*2/5, 20)+14).Put(style.Plain, fmt.Sprintf("held %s, %s", words.Brief(held), words.Count(l.Requests, "request")))
	}
	return line.String()
}

// laneState is how a webhook stands in a word. Of one that was never told of, only
// what became of the requests that it held is known.
func (m *Model) laneState(l *timeline.Webhook) (role style.Role, g, word string) {
	now, told := l.Now()
	switch {
	case l.Held > 0:
		role, g = m.sign(runner.StateHolding)
		return role, g, string(runner.StateHolding)
	case told:
		role, g = m.rungSign(now.State)
		return role, g, now.State
	case l.Failed > 0:
		role, g = m.rungSign(timeline.Failed)
		return role, g, "given up"
	}
	role, g = m.rungSign(timeline.Ready)
	return role, g, "answered"
}

// laneDetail is what is known of a webhook, below its line.
func (m *Model) laneDetail(l *timeline.Webhook) []string {
	b := &block{m: m}
	var parts []string
	for _, p := range []struct{ what, name string }{{"", l.Kind}, {"configuration ", l.Configuration}, {"Service ", l.Service}, {"", l.Owner}, {"cluster ", l.Cluster}} {
		if p.name != "" {
			parts = append(parts, p.what+p.name)
		}
	}
	b.text("of", style.Dim, strings.Join(parts, ", "))
	b.lane(l, nil)
	b.climbed(l)
	steps := map[string]bool{}
	var names []string
	for _, h := range l.Holds {
		if !steps[h.Step] {
			steps[h.Step] = true
			names = append(names, h.Step)
		}
	}
	b.text("steps", style.Dim, strings.Join(names, ", "))
	return b.lines
}

// climbed says when the webhook reached each rung, from the run's begin on.
func (b *block) climbed(l *timeline.Webhook) {
	var parts []string
	for _, r := range l.Ladder() {
		if r.State != timeline.Ready {
			break
		}
		at := r.Name + " at " + words.Brief(r.From.Sub(b.m.run.Start()))
		if r.Found {
			at = r.Name + " before"
		}
		parts = append(parts, at)
	}
	b.text("reached", style.Dim, strings.Join(parts, ", "))
}
