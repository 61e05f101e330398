package ui

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// stand is what was last said of how a webhook stands.
type stand struct {
	at    time.Time
	rung  string // and state
	cause string
}

// behind names what answers for a webhook: its Service, where several webhooks have
// one, and what is wrong with it is wrong with all; else the webhook itself.
func behind(w *runner.Webhook) string {
	if w.Service != "" {
		return w.Service
	}
	return w.Kind + " " + w.Configuration + "/" + w.Name
}

// episode is the time during which one webhook, or those at one Service, hold
// requests of one step.
type episode struct {
	webhooks map[string]bool
	cause    string
	causeAt  time.Time
	requests int
	failed   int
	err      string // of the last that failed
	sends    int
	longest  time.Duration
}

// held tells that a webhook began to hold requests, or holds them for another
// cause; further requests that it holds, or others at its Service, are counted.
func (p *plain) held(e runner.Event, s *runner.Step) {
	if e.Webhook == nil {
		return
	}
	holds := p.said[s.Name].holds
	w := e.Webhook
	h, known := holds[behind(w)]
	if !known {
		h = &episode{webhooks: map[string]bool{}}
		holds[behind(w)] = h
	}
	h.webhooks[w.Name] = true
	if known && (h.cause == w.Cause || e.Time.Sub(h.causeAt) < pace) {
		return
	}
	h.cause, h.causeAt = w.Cause, e.Time
	if known && p.said[s.Name].stands[behind(w)].cause == w.Cause { // it was told how the webhook stands
		return
	}
	p.said[s.Name].start = "" // that it is held says as much
	text := words.Join(": ", e.Object, webhookText(w.Name, w.Service), w.Cause)
	p.line(line{
		at: e.Time, step: s.Name, word: string(runner.StateHolding), colour: colours[runner.StateHolding],
		text: text + p.said[s.Name].inWords(w), news: true,
	})
}

// inWords says on a line of its own what a cause means, once for each step.
func (s *said) inWords(w *runner.Webhook) string {
	if w.Explanation == "" || s.words[w.Explanation] {
		return ""
	}
	s.words[w.Explanation] = true
	return "\nin words: " + w.Explanation
}

// stands tells how a webhook stands that the step waits for: what it lacks, or that it
// lacks nothing any more. News of the same rung are thinned out, and what is true of
// all webhooks at a Service is told once.
func (p *plain) stands(e runner.Event, s *runner.Step) {
	w := e.Webhook
	if w == nil {
		return
	}
	said := p.said[s.Name]
	last, told := said.stands[behind(w)]
	now := stand{e.Time, w.Rung + " " + w.State, w.Cause}
	hold := said.holds[behind(w)]
	switch {
	case told && last.rung == now.rung && (last.cause == now.cause || e.Time.Sub(last.at) < pace):
		return
	case w.State == "ready" && (!told || hold != nil): // it was never in the way, or the end of the hold will tell
		return
	case w.State == "unknown" && w.Rung == "serving": // it was not called yet
		return
	case hold != nil && w.Rung == "serving" && w.Cause == hold.cause: // that was told of the request
		said.stands[behind(w)] = now
		return
	}
	said.stands[behind(w)] = now
	text := words.Join(": ", words.Join(" ", w.Kind, w.Name), w.Rung, cmp.Or(w.Cause, w.State))
	if w.Owner != "" && !told {
		text += " (of " + w.Owner + ")"
	}
	p.tell(e.Time, s, string(e.Type), "2", text+p.said[s.Name].inWords(w))
}

func webhookText(name, service string) string {
	text := Holder(name, fmt.Sprintf("webhook %q", name))
	if service != "" {
		text += " (Service " + service + ")"
	}
	return text
}

// Holder says for people what holds requests: what has a name of its own as that
// is written, the API server itself, or a webhook of unknown name.
func Holder(name, written string) string {
	switch name {
	case "":
		return "a webhook"
	case runner.APIServer:
		return "the " + name
	}
	return written
}

// webhooksOf names several webhooks at one Service.
func webhooksOf(n int, service string) string {
	return fmt.Sprintf("%d webhooks (Service %s)", n, service)
}

// released tells how long requests were held, or that they were given up, once
// a webhook, and others at its Service, hold none of the step any more.
func (p *plain) released(e runner.Event, s *runner.Step) {
	w := e.Webhook
	if w == nil {
		return
	}
	said := p.said[s.Name]
	h := said.holds[behind(w)]
	if h == nil {
		h = &episode{webhooks: map[string]bool{w.Name: true}}
	}
	h.requests++
	h.sends += w.Sends
	h.longest = max(h.longest, time.Duration(w.HeldSeconds*float64(time.Second)))
	if e.Error != "" {
		h.failed++
		h.err = e.Error
	}
	if slices.ContainsFunc(s.Holds, func(x *runner.Hold) bool {
		return x.Waiting > 0 && (x.Webhook == w.Name || w.Service != "" && x.Service == w.Service)
	}) {
		return
	}
	delete(said.holds, behind(w))
	delete(said.stands, behind(w)) // it answers
	colour := "32"
	if h.failed > 0 {
		colour = "31"
	}
	p.tell(e.Time, s, "released", colour, h.end(e))
}

// end says how an episode ended with the event e.
func (h *episode) end(e runner.Event) string {
	sends, by := words.Count(h.sends, "send"), webhookText(e.Webhook.Name, "")
	if n := len(h.webhooks); n > 1 {
		by = webhooksOf(n, e.Webhook.Service)
	}
	switch {
	case h.requests == 1 && h.failed == 0:
		return words.Join(": ", e.Object, fmt.Sprintf("held %s (%s)", words.Brief(h.longest), sends))
	case h.requests == 1:
		return words.Join(": ", e.Object, fmt.Sprintf("given up after %s (%s)", words.Brief(h.longest), sends), h.err)
	case h.failed == 0:
		return fmt.Sprintf("%s held up to %s (%s) by %s", words.Count(h.requests, "request"), words.Brief(h.longest), sends, by)
	}
	return fmt.Sprintf("%d of %s held by %s given up after up to %s (%s): %s",
		h.failed, words.Count(h.requests, "request"), by, words.Brief(h.longest), sends, h.err)
}
