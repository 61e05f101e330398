package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui/style"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// webhookList is the view of the webhooks that were met, with the ladder of each.
type webhookList struct{ list }

// shown returns the webhooks that the filter lets through.
func (v *webhookList) shown() []*timeline.Webhook {
	return slices.DeleteFunc(slices.Clone(v.run.Webhooks()), func(w *timeline.Webhook) bool {
		return !v.filter.matches(w.Name, w.Kind, w.Configuration, w.Service, w.Owner, w.Cluster)
	})
}

func webhookKey(w *timeline.Webhook) string {
	return strings.Join([]string{w.Cluster, w.Configuration, w.Kind, w.Name}, "\n")
}

// focus returns the webhook that holds most requests, else one that waits.
func (v *webhookList) focus() string {
	best, rank := "", -1
	for _, w := range v.shown() {
		r := 0
		if low, ok := lowest(w.Ladder()); ok && low.State != timeline.Unknown && !v.Ended() {
			r = 1
		}
		if w.Held > 0 {
			r = 1 + w.Held
		}
		if r > rank {
			best, rank = webhookKey(w), r
		}
	}
	return best
}

func (v *webhookList) items() []item {
	all := v.shown()
	items := make([]item, len(all))
	for i, w := range all {
		key := webhookKey(w)
		items[i] = item{key: key, head: func(selected bool) string { return v.line(w, selected) }}
		open, said := v.open[key]
		if !said {
			_, waits := lowest(w.Ladder())
			open = w.Held > 0 || waits
		}
		if open {
			items[i].more = v.detail(w)
		}
	}
	return items
}

// line returns the line of a webhook: how it stands in a word, its name and ladder,
// and how long it held requests.
func (v *webhookList) line(w *timeline.Webhook, selected bool) string {
	l, name := v.head(v.width, selected, false)
	role, sign, word := v.standing(w)
	l.Put(role, sign+" ").Cell(role, word, 8)
	text := words.Line(webhookName(w))
	if v.width < 60 {
		return l.Put(name, text).String()
	}
	column := max(v.width*2/5, 20)
	l.Cell(name, text, column)
	for _, r := range w.Ladder() {
		role, sign := v.rungSign(r.State)
		l.Put(role, sign).Put(style.Plain, " ")
	}
	if held := w.HoldTime(v.now); held > 0 {
		l.To(12+column+14).Put(style.Plain, fmt.Sprintf("held %s, %s", words.Brief(held), words.Count(w.Requests, "request")))
	}
	return l.String()
}

// standing says how a webhook stands in a word. Of one that was never told of, only
// what became of the requests that it held is known.
func (v *webhookList) standing(w *timeline.Webhook) (role style.Role, sign, word string) {
	state := timeline.Ready
	switch now, told := w.Now(); {
	case w.Held > 0:
		role, sign = v.sign(runner.StateHolding)
		return role, sign, string(runner.StateHolding)
	case told:
		state, word = now.State, now.State
	case w.Failed > 0:
		state, word = timeline.Failed, "given up"
	default:
		word = "answered"
	}
	role, sign = v.rungSign(state)
	return role, sign, word
}

// detail returns what is known of a webhook, below its line.
func (v *webhookList) detail(w *timeline.Webhook) []string {
	b := &block{state: v.state, cols: v.width}
	b.text("of", style.Dim, words.Join(", ", w.Kind, words.Prefixed("configuration ", w.Configuration),
		words.Prefixed("Service ", w.Service), w.Owner, words.Prefixed("cluster ", w.Cluster)))
	b.standing(w, nil)
	b.reached(w)
	var steps []string
	for _, h := range w.Holds {
		if !slices.Contains(steps, h.Step) {
			steps = append(steps, h.Step)
		}
	}
	b.text("steps", style.Dim, strings.Join(steps, ", "))
	return b.lines
}

// webhooksOf returns the webhooks that a step waited for, or that held its requests.
func (s *state) webhooksOf(step *timeline.Step) []*timeline.Webhook {
	var all []*timeline.Webhook
	for _, w := range s.run.Webhooks() {
		stands := slices.ContainsFunc(step.Webhooks, func(o *runner.WebhookStatus) bool {
			return o.Name == w.Name && o.Configuration == w.Configuration && o.Kind == w.Kind
		})
		held := slices.ContainsFunc(step.Holds, func(h *runner.Hold) bool {
			return h.Webhook == w.Name && (h.Service == w.Service || h.Service == "")
		})
		if w.Cluster == step.Cluster && (stands || held) {
			all = append(all, w)
		}
	}
	return all
}

// webhookName returns the name of a webhook, with its kind where another one has the
// name too.
func webhookName(w *timeline.Webhook) string {
	name := ui.Holder(w.Name, w.Name)
	if w.Namesake && w.Kind != "" {
		name += " (" + w.Kind + ")"
	}
	return name
}

// webhook shows a webhook below a step that met it.
func (b *block) webhook(w *timeline.Webhook, s *timeline.Step) {
	head := b.begin("webhook").Put(style.Strong, words.Line(webhookName(w)))
	for _, text := range []string{words.Prefixed("Service ", w.Service), w.Owner} {
		if text != "" && head.Room() > 20 {
			head.Put(style.Dim, "  "+words.Line(text))
		}
	}
	b.add(head)
	b.standing(w, s)
}

// standing shows a webhook's ladder, the rung that waits, and the requests that it
// holds: those of one step, or of all if s is nil.
func (b *block) standing(w *timeline.Webhook, s *timeline.Step) {
	ladder := w.Ladder()
	b.ladder(ladder)
	if r, ok := lowest(ladder); ok {
		role, _ := b.rungSign(r.State)
		text := fmt.Sprintf("%s for %s", r.State, words.Brief(b.now.Sub(r.From)))
		if s != nil && r.Cause != "" && strings.Contains(s.Error, r.Cause) { // it was said above
			b.text(r.Name, role, text)
		} else {
			b.text(r.Name, role, words.Join(": ", text, r.Cause))
			b.text("means", style.Plain, r.Explanation)
		}
	}
	b.requests(w, s)
}

// lowest returns the lowest rung that was not reached.
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
		role, text := b.rungSign(r.State)
		if i > 0 {
			l.Put(style.Plain, gap)
		}
		l.Put(role, text)
		if room >= -1 {
			l.Put(role, " "+r.Name)
		}
	}
	b.add(l)
}

// requests says how many requests the webhook holds or held, and for how long.
func (b *block) requests(w *timeline.Webhook, s *timeline.Step) {
	var (
		waiting             []*timeline.Hold
		over, failed, sends int
		longest             time.Duration
	)
	for _, h := range w.Holds {
		switch {
		case s != nil && h.Step != s.Name:
		case h.To.IsZero():
			waiting = append(waiting, h)
		default:
			over++
			sends += h.Sends
			longest = max(longest, h.To.Sub(h.From))
			if h.Error != "" {
				failed++
			}
		}
	}
	gaveUp := ""
	if failed > 0 {
		gaveUp = fmt.Sprintf("; %d given up", failed)
	}
	switch n := len(waiting); {
	case n > 0:
		first := waiting[0]
		text := fmt.Sprintf("%s for %s", words.Count(n, "request"), words.Brief(b.now.Sub(first.From)))
		if first.Object != "" {
			text += ": " + first.Object
			if n > 1 {
				text += fmt.Sprintf(" and %d more", n-1)
			}
		}
		b.text("holds", style.Wait, text+gaveUp)
		r, ok := lowest(w.Ladder())
		if !ok || r.Cause != first.Cause {
			b.text("", style.Dim, words.Prefixed("last answer: ", first.Cause))
		}
		if r.Explanation == "" {
			b.text("means", style.Plain, first.Explanation)
		}
	case over > 0:
		b.text("held", style.Dim, fmt.Sprintf("%s, longest %s, %s%s",
			words.Count(over, "request"), words.Brief(longest), words.Count(sends, "send"), gaveUp))
	}
}

// reached says when the webhook reached each rung, from the run's begin on.
func (b *block) reached(w *timeline.Webhook) {
	var parts []string
	for _, r := range w.Ladder() {
		if r.State != timeline.Ready {
			break
		}
		at := r.Name + " at " + words.Brief(r.From.Sub(b.run.Start()))
		if r.Found {
			at = r.Name + " before"
		}
		parts = append(parts, at)
	}
	b.text("reached", style.Dim, strings.Join(parts, ", "))
}
