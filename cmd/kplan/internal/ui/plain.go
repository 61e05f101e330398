package ui

import (
	"fmt"
	"io"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/pump"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

const (
	// soon is how long a step may take that is told of by its end alone, unless there
	// is more to say.
	soon = 5 * time.Second
	// pace is the least time between two lines of progress of one step.
	pace = 2 * time.Second
	// preflight is the word of findings.
	preflight = "preflight"
	// widest is how wide the column of step names may get.
	widest = 32
)

// plain writes one line for each change:
//
//	12:00:03  race  holding    Gadget/demo/g1: webhook "gadget.example.com": connection refused
type plain struct {
	pump.Sink
	Options
	x      runner.Execution
	stalls Stalls
	width  int  // of the column of step names
	many   bool // the plan has several clusters
	said   map[string]*said
	// put takes each line that is drawn; it writes it to buf unless somebody else
	// has other plans with it.
	put func(line, []byte)
}

// line is one line, and those below it that its text has.
type line struct {
	at     time.Time
	step   string // "" for what is of the whole run
	word   string
	colour string
	text   string
	// news says that it is of interest while the run goes on: that a step entered
	// another state, or how long it has waited by now.
	news bool
}

// said is what was last said of a step.
type said struct {
	at       time.Time // of the last line
	still    time.Time // when it was last told that it is still at work
	start    string    // that its attempt has begun, not told yet
	progress string    // the last line of progress
	paced    time.Time // when that was
	holds    map[string]*episode
	stands   map[string]stand // of what is behind webhooks, see behind
	words    map[string]bool  // explanations that were given
	log      log
}

func newPlain(out io.Writer, o Options) *plain {
	p := &plain{Sink: pump.Sink{Out: out}, Options: o, said: map[string]*said{}}
	p.put = func(_ line, b []byte) { p.Buf.Write(b) }
	return p
}

func (p *plain) Close() error {
	p.end()
	return p.Sink.Close()
}

// end draws the logs of failed steps once more, and the summary, if the run has
// ended; else that steps were at work.
func (p *plain) end() {
	if p.x.State() == "" || p.x.State() == runner.StateRunning {
		for _, s := range p.x.Steps() {
			if said := p.said[s.Name]; s.State.Active() && said.start != "" {
				p.news(p.x.Last(), s, said.start)
			}
		}
		return
	}
	p.recall()
	summarize(&p.Buf, &p.x, p.Options)
}

// draw folds e and writes the line that it deserves, if any.
func (p *plain) Draw(e runner.Event) {
	var before runner.State
	if s := p.x.Step(e.Step); s != nil {
		before = s.State
	}
	p.x.Apply(e)
	object, moved := p.stalls.Observe(e)
	if said := p.said[e.Step]; moved && said != nil && object != "" {
		said.log.moved(object)
	}
	switch e.Type {
	case runner.TypePlan:
		p.begin(e)
	case runner.TypeGuards:
		for _, g := range e.Guards {
			if s := p.x.Step(g.Step); g.Late || s == nil || s.State.Terminal() { // of a run that an older kplan recorded
				continue
			}
			p.line(line{at: e.Time, step: g.Step, word: "guarded", colour: "2", text: g.String()})
		}
	case runner.TypeFetch:
		if e.Error != "" || e.Done == e.Total {
			p.line(line{at: e.Time, word: string(e.Type), colour: "2", text: words.Join(": ", e.Message, e.Error)})
		}
	case runner.TypeFinding:
		p.finding(e)
	case runner.TypeOrder:
		p.line(line{at: e.Time, step: e.Step, word: string(e.Type), colour: "33", text: words.Join(": ", e.Message, e.Error), news: true})
	case runner.TypePaused:
		p.line(line{at: e.Time, word: string(e.Type), colour: "33;1", text: e.Message, news: true})
	case runner.TypeCancel:
		p.line(line{at: e.Time, word: string(e.Type), colour: "33;1", text: stopNotice(e), news: true})
	default: // that of done is the summary, see end
		if s := p.x.Step(e.Step); s != nil {
			p.step(e, s, before)
		}
	}
}

// finding tells of what may keep steps from their work.
func (p *plain) finding(e runner.Event) {
	text, colour := Finding(e), "2"
	switch e.Finding.Severity {
	case "error":
		colour = "31;1"
	case "warning":
		colour = "33"
	}
	p.line(line{at: e.Time, step: e.Step, word: preflight, colour: colour, text: words.Join("\nhint: ", text, p.Hint(e.Hint)), news: true})
}

// Finding says in words what an event of that type tells, without its hint.
func Finding(e runner.Event) string {
	return fmt.Sprintf("%s: %s [%s]", e.Finding.Severity, e.Message, e.Finding.Code)
}

// step writes the line that an event of s deserves, if any; before is the state
// that it found s in.
func (p *plain) step(e runner.Event, s *runner.Step, before runner.State) {
	if e.Type != runner.TypeLog {
		p.unfold(e.Time, s)
		p.trouble(e.Time, s)
	}
	switch e.Type {
	case runner.TypeState:
		p.state(e, s, before)
	case runner.TypeProgress:
		if s.Total == 0 || s.Done < s.Total { // else the end is near, or tick tells
			p.progress(e.Time, s)
		}
	case runner.TypeHeld:
		p.held(e, s)
	case runner.TypeReleased:
		p.released(e, s)
	case runner.TypeWebhook:
		p.stands(e, s)
	case runner.TypeHook:
		p.hook(e, s)
	case runner.TypeLog:
		p.log(e, s)
	case runner.TypeOutputs:
		p.tell(e.Time, s, string(e.Type), "2", outputs(e.Outputs))
	case runner.TypeResult, runner.TypePlan, runner.TypeFinding, runner.TypeFetch, runner.TypeGuards, runner.TypeOrder, runner.TypePaused, runner.TypeCancel, runner.TypeDone:
	}
}

func (p *plain) begin(e runner.Event) {
	for _, s := range e.Steps {
		p.width = max(p.width, min(utf8.RuneCountInString(s.Name), widest))
		p.said[s.Name] = &said{
			holds: map[string]*episode{}, stands: map[string]stand{}, words: map[string]bool{},
			log: log{kept: map[string][]logLine{}, named: map[string]bool{}, written: map[logLine]bool{}},
		}
	}
	p.many = p.x.ManyClusters()
	text := words.Join(" on ", fmt.Sprintf("%s: %s", e.Plan, words.Count(len(e.Steps), "step")), e.Message)
	p.line(line{at: e.Time, word: "plan", colour: "1", text: text, news: true})
}

// state tells of a state that was entered. Holding and what follows it were
// told by the requests that are held and released.
func (p *plain) state(e runner.Event, s *runner.Step, before runner.State) {
	var text string
	switch s.State {
	case runner.StateHolding:
		return
	case runner.StatePending: // by an order, or for its concurrency group
		text = e.Message
	case runner.StateRunning:
		if before == runner.StateHolding {
			return
		}
		p.begins(e, s)
		return
	case runner.StateRetrying:
		when := "at once"
		if s.Delay > 0 {
			when = "within " + words.Brief(s.Delay)
		}
		text = fmt.Sprintf("attempt %d/%d failed: %s\nnext attempt %s", e.Attempt, e.Attempts, e.Error, when)
	case runner.StateSucceeded, runner.StateUnchanged:
		text = success(s, e.Time)
	case runner.StateFailed:
		if text = e.Error; e.Attempt > 0 {
			text = fmt.Sprintf("after %s, attempt %d/%d: %s", words.Brief(s.Elapsed(e.Time)), e.Attempt, e.Attempts, e.Error)
		}
		text = words.Join("\n", text, e.Message)
	case runner.StateBlocked, runner.StateSkipped, runner.StateCancelled:
		text = words.Join(": ", e.Message, e.Error)
	}
	if e.Hint != "" {
		text += "\nhint: " + p.Hint(e.Hint)
	}
	if said := p.said[s.Name]; !s.State.Active() {
		clear(said.holds)
		clear(said.stands)
		said.start, said.progress = "", ""
		if s.State == runner.StateRetrying {
			p.attemptFailed(e.Time, s)
		}
		p.tellRepeated(e.Time, s, &p.said[s.Name].log.again)
		clear(said.log.kept) // the attempt has ended
		clear(said.log.named)
	}
	p.news(e.Time, s, text)
}

// begins takes note that an attempt has begun. It is told with what the step is at when
// it takes a while; a further attempt at once.
func (p *plain) begins(e runner.Event, s *runner.Step) {
	said := p.said[s.Name]
	said.at, said.paced = e.Time, e.Time
	said.start = fmt.Sprintf("attempt %d/%d", e.Attempt, e.Attempts)
	if p.many && s.Cluster != "" {
		said.start += " on " + s.Cluster
	}
	if e.Attempt > 1 {
		p.news(e.Time, s, said.start)
		said.start = ""
	}
}

// success says what a step achieved, and what it took.
func success(s *runner.Step, now time.Time) string {
	return words.Join(": ", words.Join(", ", words.Brief(s.Elapsed(now)), Gains(s, now)), s.Message)
}

// Gains says which revision a step made, how long its requests were held, and how long
// it waited for its concurrency group.
func Gains(s *runner.Step, now time.Time) string {
	revision, held := "", ""
	if s.Revision > 0 {
		revision = fmt.Sprintf("revision %d", s.Revision)
	}
	if d := s.HoldTime(now); d > 0 {
		held = "held " + words.Brief(d)
	}
	return words.Join(", ", revision, held, GroupWait(s, now))
}

// GroupWait says how long a step waited for its concurrency group; "" if it did not.
func GroupWait(s *runner.Step, now time.Time) string {
	if d := s.GroupWait(now); d > 0 {
		return fmt.Sprintf("waited %s for group %s", words.Brief(d), s.ConcurrencyGroup)
	}
	return ""
}

// progress tells how far s is, unless that was just told, and before it that its
// attempt has begun.
func (p *plain) progress(now time.Time, s *runner.Step) {
	said, text := p.said[s.Name], Progress(s)
	switch wait := now.Sub(said.paced); {
	case said.start != "" && wait < soon, wait < pace:
		return
	case said.start == "" && (text == "" || text == said.progress):
		return
	}
	said.progress, said.paced = text, now
	p.line(line{
		at: now, step: s.Name, word: string(s.State), colour: colours[s.State],
		text: words.Join(": ", said.start, text), news: said.start != "",
	})
	said.start = ""
}

// Progress says how far a step is.
func Progress(s *runner.Step) string {
	text := s.Message
	if s.Object != "" && !strings.Contains(text, path.Base(s.Object)) {
		text = words.Join(": ", s.Object, text)
	}
	if n := fmt.Sprintf("%d/%d", s.Done, s.Total); s.Total > 0 && !strings.Contains(text, n) {
		text = words.Join(" ", n, text)
	}
	return text
}

// tell writes a line about a step.
func (p *plain) tell(now time.Time, s *runner.Step, word, colour, text string) {
	p.line(line{at: now, step: s.Name, word: word, colour: colour, text: text})
}

// news writes a line about the state that a step is in.
func (p *plain) news(now time.Time, s *runner.Step, text string) {
	p.line(line{at: now, step: s.Name, word: string(s.State), colour: colours[s.State], text: text, news: true})
}

// line writes one line, and further lines of its text below each other.
func (p *plain) line(l line) {
	if said := p.said[l.step]; said != nil {
		said.at = l.at
	}
	head := fmt.Sprintf("%s  %-*s  ", l.at.Local().Format(time.TimeOnly), p.width, p.Clean(l.step))
	state := fmt.Sprintf("%-9s", l.word)
	below := strings.Repeat(" ", min(utf8.RuneCountInString(head), 12+widest)+11)
	text := head + p.Paint(l.colour, state) + "  " + strings.TrimRight(words.Indent(p.Clean(l.text), below), " ") + "\n"
	p.put(l, []byte(text))
}

// colours are SGR codes of the sixteen that every terminal theme sets.
var colours = map[runner.State]string{
	runner.StatePending: "2", runner.StateRunning: "36", runner.StateHolding: "33", runner.StateRetrying: "33",
	runner.StateSucceeded: "32", runner.StateUnchanged: "32", runner.StateSkipped: "2",
	runner.StateFailed: "31;1", runner.StateBlocked: "35", runner.StateCancelled: "35",
}
