package ui

import (
	"fmt"
	"slices"
	"time"

	"github.com/kplan-dev/kplan/runner"
)

// stand is what was last said of how a webhook stands.
type stand struct {
	at   time.Time
	rung string // and state
}

// episode is the time during which one webhook holds requests of one step.
type episode struct {
	cause    string
	causeAt  time.Time
	requests int
	failed   int
	err      string // of the last that failed
	sends    int
	longest  time.Duration
}

// held tells that a webhook began to hold requests, or holds them for another
// cause; further requests that it holds are counted.
func (p *plain) held(e runner.Event, s *runner.Step) {
	if e.Webhook == nil {
		return
	}
	holds := p.said[s.Name].holds
	h := holds[e.Webhook.Name]
	if h == nil {
		h = &episode{}
		holds[e.Webhook.Name] = h
	} else if h.cause == e.Webhook.Cause || e.Time.Sub(h.causeAt) < pace {
		return
	}
	h.cause, h.causeAt = e.Webhook.Cause, e.Time
	text := Joined(": ", e.Object, webhookText(e.Webhook.Name, e.Webhook.Service), e.Webhook.Cause)
	p.line(line{
		at: e.Time, step: s.Name, word: string(runner.StateHolding), colour: colours[runner.StateHolding],
		text: text + p.inWords(s, e.Webhook), news: true,
	})
}

// inWords says on a line of its own what a cause means, once for each step.
func (p *plain) inWords(s *runner.Step, w *runner.Webhook) string {
	words := p.said[s.Name].words
	if w.Explanation == "" || words[w.Explanation] {
		return ""
	}
	words[w.Explanation] = true
	return "\nin words: " + w.Explanation
}

// stands tells how a webhook stands that the step waits for: what it lacks, or
// that it lacks nothing. News of the same rung are thinned out.
func (p *plain) stands(e runner.Event, s *runner.Step) {
	w := e.Webhook
	if w == nil {
		return
	}
	key := w.Kind + " " + w.Configuration + "/" + w.Name
	last, told := p.said[s.Name].stands[key]
	now := stand{e.Time, w.Rung + " " + w.State}
	if told && last.rung == now.rung && e.Time.Sub(last.at) < pace {
		return
	}
	p.said[s.Name].stands[key] = now
	cause := w.Cause
	if cause == "" {
		cause = w.State
	}
	text := Joined(": ", Joined(" ", w.Kind, w.Name), w.Rung, cause)
	if w.Owner != "" && !told {
		text += " (of " + w.Owner + ")"
	}
	p.tell(e.Time, s, string(e.Type), "2", text+p.inWords(s, w))
}

func webhookText(name, service string) string {
	text := holder(name, fmt.Sprintf("webhook %q", name))
	if service != "" {
		text += " (Service " + service + ")"
	}
	return text
}

// holder says for people what holds requests: what has a name of its own as that
// is written, the API server itself, or a webhook of unknown name.
func holder(name, written string) string {
	switch name {
	case "":
		return "a webhook"
	case runner.APIServer:
		return "the " + name
	}
	return written
}

// released tells how long requests were held, or that they were given up, once
// a webhook holds none of the step any more.
func (p *plain) released(e runner.Event, s *runner.Step) {
	if e.Webhook == nil {
		return
	}
	holds := p.said[s.Name].holds
	h := holds[e.Webhook.Name]
	if h == nil {
		h = &episode{}
	}
	h.requests++
	h.sends += e.Webhook.Sends
	h.longest = max(h.longest, time.Duration(e.Webhook.HeldSeconds*float64(time.Second)))
	if e.Error != "" {
		h.failed++
		h.err = e.Error
	}
	i := slices.IndexFunc(s.Holds, func(x *runner.Hold) bool { return x.Webhook == e.Webhook.Name })
	if i >= 0 && s.Holds[i].Waiting > 0 {
		return
	}
	delete(holds, e.Webhook.Name)
	colour := "32"
	if h.failed > 0 {
		colour = "31"
	}
	p.tell(e.Time, s, "released", colour, h.end(e))
}

// end says how an episode ended with the event e.
func (h *episode) end(e runner.Event) string {
	sends := Count(h.sends, "send")
	switch {
	case h.requests == 1 && h.failed == 0:
		return Joined(": ", e.Object, fmt.Sprintf("held %s (%s)", Brief(h.longest), sends))
	case h.requests == 1:
		return Joined(": ", e.Object, fmt.Sprintf("given up after %s (%s)", Brief(h.longest), sends), h.err)
	case h.failed == 0:
		return fmt.Sprintf("%s held up to %s (%s) by %s", Count(h.requests, "request"), Brief(h.longest), sends, webhookText(e.Webhook.Name, ""))
	}
	return fmt.Sprintf("%d of %s held by %s given up after up to %s (%s): %s",
		h.failed, Count(h.requests, "request"), webhookText(e.Webhook.Name, ""), Brief(h.longest), sends, h.err)
}
