package ui

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/pump"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// reminder is how long held requests may go unmentioned.
const reminder = 30 * time.Second

// terse is for the one step of a run whose command has the terminal: it says nothing
// unless requests are held, and then what plain says of that, in lines that cannot be
// taken for the command's:
//
//	kplan: holding Gadget/demo/g1: webhook "gadget.example.com": connection refused
type terse struct {
	*plain
	at time.Time // of the last line
}

// NewTerse makes a renderer that says only what is held; see New.
func NewTerse(out io.Writer, o Options) Renderer { return pump.Start(newTerse(out, o)) }

func newTerse(out io.Writer, o Options) *terse {
	t := &terse{plain: newPlain(out, o)}
	t.put = t.sort
	return t
}

// draw folds e, and writes kplan's own log; that of others is in records and reports.
func (t *terse) Draw(e runner.Event) {
	if e.Type != runner.TypeLog {
		t.plain.Draw(e)
		return
	}
	t.x.Apply(e)
	if e.Object == "" {
		t.say(t.Clean(e.Message))
	}
}

// sort writes a line if it is about a hold.
func (t *terse) sort(l line, _ []byte) {
	word := l.word
	switch word {
	case string(runner.StateHolding), string(runner.TypeReleased), preflight:
	case string(runner.TypeWebhook):
		word = t.waiting(l.step) + word
	default:
		return
	}
	t.at = l.at
	t.say(t.Paint(l.colour, word) + " " + t.Clean(l.text))
}

// waiting says how many requests of a step are held now.
func (t *terse) waiting(step string) string {
	if n := t.x.Step(step).Held(); n > 0 {
		return fmt.Sprintf("%s of %s: ", words.Count(n, "request"), t.Clean(step))
	}
	return ""
}

// say writes lines that are kplan's own.
func (t *terse) say(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(&t.Buf, "%s %s\n", t.Paint("2", "kplan:"), line)
	}
}

// tick reminds of what is held.
func (t *terse) Tick(now time.Time) {
	for _, s := range t.x.Steps() {
		if s.State == runner.StateHolding && now.Sub(t.at) >= reminder {
			t.at = now
			t.say(t.Clean(still(now, s)))
		}
	}
}

// close sums up what was held, if anything was.
func (t *terse) Close() error {
	for _, s := range t.x.Steps() {
		t.sum(s)
	}
	return t.Sink.Close()
}

// sum says what a step's holds came to.
func (t *terse) sum(s *runner.Step) {
	requests, failed := 0, 0
	longest := time.Duration(0)
	holds := s.HoldsAt(t.x.Last())
	for _, h := range holds {
		requests += h.Requests
		failed += h.Failed
		longest = max(longest, h.Longest)
	}
	if requests == 0 {
		return
	}
	what := fmt.Sprintf("held %s of %s up to %s", words.Count(requests, "request"), t.Clean(s.Name), words.Brief(longest))
	switch {
	case failed == requests:
		what += ", in vain"
	case failed > 0:
		what += fmt.Sprintf(", %d in vain; without kplan all would have failed", failed)
	case requests == 1:
		what += "; without kplan it would have failed"
	default:
		what += "; without kplan they would have failed"
	}
	t.say(t.Paint("1", what))
	for _, h := range holds {
		t.say("  " + t.Clean(fmt.Sprintf("%s: %s, longest %s", Holder(h.Webhook, h.Webhook), words.Count(h.Requests, "request"), words.Brief(h.Longest))))
	}
}
