package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/runner"
)

const (
	// longCause is how many characters of a cause a line has that says once more
	// what is waited for, and longProgress how many of how far the step is; the
	// whole was told when it changed.
	longCause, longProgress = 160, 240
	// manyWaits is how many causes such a line names.
	manyWaits = 3
)

// tick tells of progress that was held back, and of steps at work that have
// said nothing for a while.
func (p *plain) tick(now time.Time) {
	for _, s := range p.x.Steps() {
		said := p.said[s.Name]
		switch {
		case s.State.Active():
			if s.State == runner.StateRunning { // what came before a hold is old news
				p.progress(now, s)
			}
			p.trouble(now, s)
			if now.Sub(said.at) < silence {
				continue
			}
			p.unfold(now, s)
			p.news(now, s, still(now, s))
		case s.State == runner.StateRetrying && now.Sub(said.at) >= silence:
			p.news(now, s, "next attempt within "+Brief(s.Delay-now.Sub(s.Since)))
		}
	}
}

// still says that nothing has changed: for how long, how far the step is, and
// what it waits for.
func still(now time.Time, s *runner.Step) string {
	doing, waits := string(s.State), waitsFor(s)
	if s.State == runner.StateRunning && waits != "" {
		doing = "waiting"
	}
	return Joined(": ", fmt.Sprintf("still %s %s", doing, Brief(s.Elapsed(now))), Joined("; ", cut(progressText(s), longProgress), waits))
}

// wait is what a step waits for, and why it is not there.
type wait struct {
	who []string
	why string
}

// waitsFor says which webhooks hold requests of s now, or are waited for, and
// why. Those that have one cause are told together.
func waitsFor(s *runner.Step) string {
	var waits []*wait
	add := func(who, why string) {
		for _, w := range waits {
			if w.why == why && why != "" {
				w.who = append(w.who, who)
				return
			}
		}
		waits = append(waits, &wait{[]string{who}, why})
	}
	for _, h := range s.Holds {
		if h.Waiting > 0 {
			why := h.Cause
			if i := standing(s, h.Webhook); i >= 0 {
				why = stands(s.Webhooks[i])
			}
			add(fmt.Sprintf("%s held by %s", Count(h.Waiting, "request"), webhookText(h.Webhook, "")), why)
		}
	}
	if s.Kind == "webhook" { // others wait for a webhook only while it holds a request
		for _, w := range s.Webhooks {
			if lacks(w) && !slices.ContainsFunc(s.Holds, func(h *runner.Hold) bool { return h.Waiting > 0 && h.Webhook == w.Name }) {
				add(Joined(" ", w.Kind, webhookText(w.Name, "")), stands(w))
			}
		}
	}
	var parts []string
	for i, w := range waits {
		if i == manyWaits {
			parts = append(parts, fmt.Sprintf("and %d more", len(waits)-i))
			break
		}
		who := w.who[0]
		if n := len(w.who) - 1; n > 0 {
			who += fmt.Sprintf(" and %d more", n)
		}
		parts = append(parts, Joined(": ", who, cut(w.why, longCause)))
	}
	return strings.Join(parts, "; ")
}

// standing finds the webhook of a name that has not reached its rung; -1 without.
func standing(s *runner.Step, name string) int {
	return slices.IndexFunc(s.Webhooks, func(w *runner.Standing) bool {
		return w.Name == name && lacks(w)
	})
}

func lacks(w *runner.Standing) bool { return w.State == "waiting" || w.State == "failed" }

func stands(w *runner.Standing) string { return Joined(": ", w.Rung, w.Cause) }

// cut shortens a text for a line.
func cut(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + " …"
	}
	return s
}
