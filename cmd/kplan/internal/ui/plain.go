package ui

import (
	"bytes"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kplan-dev/kplan/runner"
)

const (
	// silence is how long a step at work may say nothing. Ticks come once a
	// second, so that the gap stays under 10 s.
	silence = 9 * time.Second
	// pace is the least time between two lines of progress of one step.
	pace = 2 * time.Second
	// widest is how wide the column of step names may get.
	widest = 32
)

// plain writes one line for each change:
//
//	12:00:03  race  holding    Gadget/demo/g1: webhook "gadget.example.com": connection refused
type plain struct {
	sink
	Options
	buf   bytes.Buffer
	x     runner.Execution
	width int  // of the column of step names
	many  bool // the plan has several clusters
	said  map[string]*said
}

// said is what was last said of a step.
type said struct {
	at       time.Time // of the last line
	progress string    // the last line of progress
	paced    time.Time // when that was
	holds    map[string]*episode
	stands   map[string]stand // of webhooks, by name
}

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

func newPlain(out io.Writer, o Options) *plain {
	return &plain{sink: sink{out: out}, Options: o, said: map[string]*said{}}
}

var (
	_ drawer = (*plain)(nil)
	_ ticker = (*plain)(nil)
)

func (p *plain) flush() {
	p.write(p.buf.Bytes())
	p.buf.Reset()
}

func (p *plain) close() error {
	if p.x.State() != "" && p.x.State() != runner.StateRunning {
		summarize(&p.buf, &p.x, p.Options)
	}
	p.flush()
	return p.fault()
}

// draw folds e and writes the line that it deserves, if any.
func (p *plain) draw(e runner.Event) {
	var before runner.State
	if s := p.x.Step(e.Step); s != nil {
		before = s.State
	}
	p.x.Apply(e)
	switch e.Type {
	case runner.TypePlan:
		p.begin(e)
	case runner.TypeGuards:
		for _, g := range e.Guards {
			p.line(e.Time, g.Step, "guarded", "2", g.String())
		}
	case runner.TypeCancel:
		p.line(e.Time, "", string(e.Type), "33;1", stopNotice(e))
	default: // that of done is the summary, see close
		if s := p.x.Step(e.Step); s != nil {
			p.step(e, s, before)
		}
	}
}

// step writes the line that an event of s deserves, if any; before is the state
// that it found s in.
func (p *plain) step(e runner.Event, s *runner.Step, before runner.State) {
	switch e.Type {
	case runner.TypeState:
		p.state(e, s, before)
	case runner.TypeProgress:
		p.progress(e.Time, s)
	case runner.TypeHeld:
		p.held(e, s)
	case runner.TypeReleased:
		p.released(e, s)
	case runner.TypeWebhook:
		p.stands(e, s)
	case runner.TypeLog:
		p.tell(e.Time, s, "log", "2", e.Message)
	case runner.TypeOutputs:
		p.tell(e.Time, s, string(e.Type), "2", outputs(e.Outputs))
	case runner.TypeResult, runner.TypePlan, runner.TypeGuards, runner.TypeCancel, runner.TypeDone:
	}
}

func (p *plain) begin(e runner.Event) {
	for _, s := range e.Steps {
		p.width = max(p.width, min(utf8.RuneCountInString(s.Name), widest))
		p.said[s.Name] = &said{holds: map[string]*episode{}, stands: map[string]stand{}}
	}
	p.many = manyClusters(&p.x)
	p.line(e.Time, "", "plan", "1", joined(" on ", fmt.Sprintf("%s: %s", e.Plan, count(len(e.Steps), "step")), e.Message))
}

// state tells of a state that was entered. Holding and what follows it were
// told by the requests that are held and released.
func (p *plain) state(e runner.Event, s *runner.Step, before runner.State) {
	var text string
	switch s.State {
	case runner.StateHolding, runner.StatePending:
		return
	case runner.StateRunning:
		if before == runner.StateHolding {
			return
		}
		p.said[s.Name].paced = e.Time // steps that end at once need no progress
		text = fmt.Sprintf("attempt %d/%d", e.Attempt, e.Attempts)
		if p.many && s.Cluster != "" {
			text += " on " + s.Cluster
		}
	case runner.StateRetrying:
		text = fmt.Sprintf("attempt %d/%d failed: %s\nnext attempt within %s", e.Attempt, e.Attempts, e.Error, brief(s.Delay))
	case runner.StateSucceeded, runner.StateUnchanged:
		text = success(s, e.Time)
	case runner.StateFailed:
		if text = e.Error; e.Attempt > 0 {
			text = fmt.Sprintf("after %s, attempt %d/%d: %s", brief(s.Elapsed(e.Time)), e.Attempt, e.Attempts, e.Error)
		}
		text = joined("\n", text, e.Message)
	case runner.StateBlocked, runner.StateSkipped, runner.StateCancelled:
		text = joined(": ", e.Message, e.Error)
	}
	if e.Hint != "" {
		text += "\nhint: " + e.Hint
	}
	if said := p.said[s.Name]; !s.State.Active() {
		clear(said.holds)
		said.progress = ""
	}
	p.tell(e.Time, s, string(s.State), colours[s.State], text)
}

// success says what a step achieved, and what it took.
func success(s *runner.Step, now time.Time) string {
	parts := []string{brief(s.Elapsed(now))}
	if s.Revision > 0 {
		parts = append(parts, fmt.Sprintf("revision %d", s.Revision))
	}
	if held := s.HoldTime(now); held > 0 {
		parts = append(parts, "held "+brief(held))
	}
	return joined(": ", strings.Join(parts, ", "), s.Message)
}

// progress tells how far s is, unless that was just told.
func (p *plain) progress(now time.Time, s *runner.Step) {
	said, text := p.said[s.Name], progressText(s)
	if text == "" || text == said.progress || now.Sub(said.paced) < pace {
		return
	}
	said.progress, said.paced = text, now
	p.tell(now, s, string(s.State), colours[s.State], text)
}

func progressText(s *runner.Step) string {
	text := s.Message
	if s.Object != "" && !strings.Contains(text, path.Base(s.Object)) {
		text = joined(": ", s.Object, text)
	}
	if n := fmt.Sprintf("%d/%d", s.Done, s.Total); s.Total > 0 && !strings.Contains(text, n) {
		text = joined(" ", n, text)
	}
	return text
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
	text := joined(": ", e.Object, webhookText(e.Webhook.Name, e.Webhook.Service), e.Webhook.Cause)
	p.tell(e.Time, s, string(runner.StateHolding), colours[runner.StateHolding], text)
}

// stands tells how a webhook stands that the step waits for: what it lacks, or
// that it lacks nothing. News of the same rung are thinned out.
func (p *plain) stands(e runner.Event, s *runner.Step) {
	w := e.Webhook
	if w == nil {
		return
	}
	last, told := p.said[s.Name].stands[w.Name]
	now := stand{e.Time, w.Rung + " " + w.State}
	if told && last.rung == now.rung && e.Time.Sub(last.at) < pace {
		return
	}
	p.said[s.Name].stands[w.Name] = now
	cause := w.Cause
	if cause == "" {
		cause = w.State
	}
	text := joined(": ", w.Name, w.Rung, cause)
	if w.Owner != "" && !told {
		text += " (of " + w.Owner + ")"
	}
	p.tell(e.Time, s, string(e.Type), "2", text)
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
	sends := count(h.sends, "send")
	switch {
	case h.requests == 1 && h.failed == 0:
		return joined(": ", e.Object, fmt.Sprintf("held %s (%s)", brief(h.longest), sends))
	case h.requests == 1:
		return joined(": ", e.Object, fmt.Sprintf("given up after %s (%s)", brief(h.longest), sends), h.err)
	case h.failed == 0:
		return fmt.Sprintf("%s held up to %s (%s) by %s", count(h.requests, "request"), brief(h.longest), sends, webhookText(e.Webhook.Name, ""))
	}
	return fmt.Sprintf("%d of %s held by %s given up after up to %s (%s): %s",
		h.failed, count(h.requests, "request"), webhookText(e.Webhook.Name, ""), brief(h.longest), sends, h.err)
}

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
			if now.Sub(said.at) < silence {
				continue
			}
			text := fmt.Sprintf("still %s %s", s.State, brief(s.Elapsed(now)))
			p.tell(now, s, string(s.State), colours[s.State], joined(": ", text, joined("; ", progressText(s), p.waits(s))))
		case s.State == runner.StateRetrying && now.Sub(said.at) >= silence:
			p.tell(now, s, string(s.State), colours[s.State], "next attempt within "+brief(s.Delay-now.Sub(s.Since)))
		}
	}
}

// waits says which webhooks hold requests of s now, and why where the cause is
// not the one that was told last.
func (p *plain) waits(s *runner.Step) string {
	var parts []string
	for _, h := range s.Holds {
		if h.Waiting == 0 {
			continue
		}
		text := fmt.Sprintf("%s held by %s", count(h.Waiting, "request"), webhookText(h.Webhook, ""))
		if told := p.said[s.Name].holds[h.Webhook]; told == nil || told.cause != h.Cause {
			text = joined(": ", text, h.Cause)
			if told != nil {
				told.cause = h.Cause
			}
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// tell writes a line about a step.
func (p *plain) tell(now time.Time, s *runner.Step, word, colour, text string) {
	p.said[s.Name].at = now
	p.line(now, s.Name, word, colour, text)
}

// line writes one line, and further lines of its text below each other.
func (p *plain) line(now time.Time, name, word, colour, text string) {
	head := fmt.Sprintf("%s  %-*s  ", now.Local().Format(time.TimeOnly), p.width, Clean(name))
	state := fmt.Sprintf("%-9s", word)
	below := strings.Repeat(" ", min(utf8.RuneCountInString(head), 12+widest)+11)
	p.buf.WriteString(head + p.paint(colour, state) + "  ")
	p.buf.WriteString(strings.TrimRight(indent(Clean(text), below), " ") + "\n")
}

// colours are SGR codes of the sixteen that every terminal theme sets.
var colours = map[runner.State]string{
	runner.StatePending: "2", runner.StateRunning: "36", runner.StateHolding: "33", runner.StateRetrying: "33",
	runner.StateSucceeded: "32", runner.StateUnchanged: "32", runner.StateSkipped: "2",
	runner.StateFailed: "31;1", runner.StateBlocked: "35", runner.StateCancelled: "35",
}

// joined joins the parts that are not empty.
func joined(sep string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), sep)
}
