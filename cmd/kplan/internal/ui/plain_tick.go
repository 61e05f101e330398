package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

const (
	// silence is how long a step at work may say nothing. Ticks come once a
	// second, so that the gap stays under 10 s.
	silence = 9 * time.Second
	// Of what nobody has heard for a minute, it is told less often that it is
	// still at work, and of what nobody has heard for five still less.
	aMinute, everyHalf    = time.Minute, 29 * time.Second
	fiveMinutes, everyOne = 5 * time.Minute, 59 * time.Second
	// alike is how long ago a step may have said something that is told of with
	// others which are due: one line for all of them.
	alike = 4 * time.Second
	// longCause is how many characters of a cause a line has that says once more
	// what is waited for, and longProgress how many of how far the step is; the
	// whole was told when it changed.
	longCause, longProgress = 160, 240
	// manyWaits is how many causes such a line names, manyStill how many steps and
	// longStill how many characters of what each is at.
	manyWaits, manyStill, longStill = 3, 4, 120
)

// tick tells of progress that was held back, and of steps at work that have
// said nothing for a while.
func (p *plain) Tick(now time.Time) {
	var quiet []*runner.Step
	due := false
	for _, s := range p.x.Steps() {
		said := p.said[s.Name]
		switch {
		case s.State.Active():
			if s.State == runner.StateRunning { // what came before a hold is old news
				p.progress(now, s)
			}
			p.trouble(now, s)
			if ago := min(now.Sub(said.at), now.Sub(said.still)); ago >= alike {
				quiet = append(quiet, s)
				due = due || ago >= said.patience(now)
			}
		case s.State == runner.StateRetrying && now.Sub(said.at) >= silence:
			p.news(now, s, "next attempt within "+words.Brief(s.Delay-now.Sub(s.Since)))
		}
	}
	if due {
		p.still(now, quiet)
	}
}

// patience is how long it may take until it is told again that the step is at work.
func (s *said) patience(now time.Time) time.Duration {
	switch quiet := now.Sub(s.at); {
	case quiet > fiveMinutes:
		return everyOne
	case quiet > aMinute:
		return everyHalf
	}
	return silence
}

// still tells that steps are at work of which nothing is new.
func (p *plain) still(now time.Time, steps []*runner.Step) {
	for _, s := range steps {
		p.unfold(now, s)
		p.said[s.Name].still = now
	}
	if len(steps) == 1 {
		s, at := steps[0], p.said[steps[0].Name].at
		p.news(now, s, still(now, s))
		p.said[s.Name].at = at // it was no news
		return
	}
	var parts []string
	for i, s := range steps {
		if i == manyStill {
			parts = append(parts, fmt.Sprintf("and %d more", len(steps)-i))
			break
		}
		text := fmt.Sprintf("%s %s", s.Name, words.Brief(s.Elapsed(now)))
		if at := words.Cut(words.Join("; ", Progress(s), waitsFor(s)), longStill, " …"); at != "" {
			text += " (" + at + ")"
		}
		parts = append(parts, text)
	}
	p.line(line{at: now, word: string(runner.StateRunning), colour: colours[runner.StateRunning], text: "still at work: " + strings.Join(parts, ", "), news: true})
}

// still says that nothing has changed: for how long, how far the step is, and
// what it waits for.
func still(now time.Time, s *runner.Step) string {
	doing, waits := string(s.State), waitsFor(s)
	if s.State == runner.StateRunning && waits != "" {
		doing = "waiting"
	}
	return words.Join(": ", fmt.Sprintf("still %s %s", doing, words.Brief(s.Elapsed(now))), words.Join("; ", words.Cut(Progress(s), longProgress, " …"), waits))
}

// wait is what a step waits for, why it is not there, and how many others are not for
// the same cause.
type wait struct {
	who, why string
	others   int
}

// waitsFor says which webhooks hold requests of s now, or are waited for, and
// why. Those that have one cause are told together.
func waitsFor(s *runner.Step) string {
	var waits []wait
	add := func(who, why string) {
		if i := slices.IndexFunc(waits, func(w wait) bool { return w.why == why && why != "" }); i >= 0 {
			waits[i].others++
			return
		}
		waits = append(waits, wait{who: who, why: why})
	}
	for _, g := range heldBy(s) {
		why, held := g[0].Cause, 0
		if i := slices.IndexFunc(s.Webhooks, func(w *runner.WebhookStatus) bool { return w.Name == g[0].Webhook && lacks(w) }); i >= 0 {
			why = stands(s.Webhooks[i])
		}
		for _, h := range g {
			held += h.Waiting
		}
		who := webhookText(g[0].Webhook, "")
		if len(g) > 1 {
			who = webhooksOf(len(g), g[0].Service)
		}
		add(fmt.Sprintf("%s held by %s", words.Count(held, "request"), who), why)
	}
	if s.Kind == "webhook" { // others wait for a webhook only while it holds a request
		for _, w := range s.Webhooks {
			if lacks(w) && !slices.ContainsFunc(s.Holds, func(h *runner.Hold) bool { return h.Waiting > 0 && h.Webhook == w.Name }) {
				add(words.Join(" ", w.Kind, webhookText(w.Name, "")), stands(w))
			}
		}
	}
	var parts []string
	for i, w := range waits {
		if i == manyWaits {
			parts = append(parts, fmt.Sprintf("and %d more", len(waits)-i))
			break
		}
		if w.others > 0 {
			w.who += fmt.Sprintf(" and %d more", w.others)
		}
		parts = append(parts, words.Join(": ", w.who, words.Cut(w.why, longCause, " …")))
	}
	return strings.Join(parts, "; ")
}

// heldBy are the holds of s that last, those at one Service together.
func heldBy(s *runner.Step) [][]*runner.Hold {
	var groups [][]*runner.Hold
	for _, h := range s.Holds {
		if h.Waiting == 0 {
			continue
		}
		i := slices.IndexFunc(groups, func(g []*runner.Hold) bool { return h.Service != "" && g[0].Service == h.Service })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], h)
	}
	return groups
}

func lacks(w *runner.WebhookStatus) bool { return w.State == "waiting" || w.State == "failed" }

func stands(w *runner.WebhookStatus) string { return words.Join(": ", w.Rung, w.Cause) }
