package report

import (
	"strconv"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
)

// logs are the logs of all steps, by index. Those of failed steps come whole
// before others get what room is left.
func (r *run) logs() map[int]string {
	texts := map[int]string{}
	room := htmlLogs
	for _, failed := range []bool{true, false} {
		for i, s := range r.Steps() {
			if len(s.Logs) == 0 || (s.State == runner.StateFailed) != failed {
				continue
			}
			limit := htmlLog
			if failed {
				limit = htmlFailureLog
			}
			if limit = min(limit, room); limit <= 0 {
				texts[i] = "(" + words.Count(len(s.Logs)+s.LogsDropped, "log") + " left out here)"
				continue
			}
			texts[i] = r.logText(s, limit)
			room -= len(texts[i])
		}
	}
	return texts
}

// objects fills in the objects of steps: those of steps that are not done come
// before others get what room is left.
func (r *run) objects(steps []*htmlStep) {
	room := htmlAllObjects
	for _, good := range []bool{false, true} {
		for i, s := range r.Steps() {
			if s.State.Good() != good {
				continue
			}
			n := min(len(s.Objects), htmlObjects, room)
			for _, o := range s.Objects[:n] {
				steps[i].Objects = append(steps[i].Objects, htmlObject{line(o.Name), clean(o.Text), r.offset(o.Last)})
			}
			steps[i].MoreObjects = len(s.Objects) - n
			room -= n
		}
	}
}

func (r *run) htmlStep(i int, s *timeline.Step, links map[string]htmlLink) *htmlStep {
	h := &htmlStep{
		Index: i, Name: or(line(s.Name), "(no name)"), Kind: line(s.Kind), Cluster: line(s.Cluster), Group: line(s.Group),
		Tags: line(strings.Join(s.Tags, ", ")), State: stateOf(s), Glyph: or(glyphs[s.State], "?"), Finally: s.Finally,
		Attempt: attempt(s), Took: r.took(s), Held: r.held(s), Note: clean(r.note(s)), Cause: clean(s.Error), Hint: clean(s.Hint), Where: line(where(s)),
	}
	for _, name := range r.critical {
		h.Critical = h.Critical || name == s.Name
	}
	if !s.Started.IsZero() {
		h.Started = r.offset(s.Started)
	}
	if !s.Ended.IsZero() {
		h.Ended = r.offset(s.Ended)
	}
	if s.TimeoutSeconds > 0 {
		h.Timeout = words.Brief(time.Duration(s.TimeoutSeconds * float64(time.Second)))
	}
	if s.Revision > 0 {
		h.Revision = strconv.Itoa(s.Revision)
	}
	for _, name := range s.Needs {
		l, ok := links[name]
		if !ok {
			l = htmlLink{Index: -1, Name: line(name)}
		}
		l.Text = string(s.NeedsOn[name])
		h.Needs = append(h.Needs, l)
	}
	const most = 50
	for n, name := range r.blocks[s.Name] {
		if n == most {
			h.MoreBlocks = len(r.blocks[s.Name]) - most
			break
		}
		h.Blocks = append(h.Blocks, links[name])
	}
	for _, g := range r.x.Guards() {
		if g.Step == s.Name {
			h.Guards = append(h.Guards, line(g.String()))
		}
	}
	r.history(h, s)
	return h
}

// history fills in what happened to a step.
func (r *run) history(h *htmlStep, s *timeline.Step) {
	for _, w := range s.Webhooks {
		l := htmlLadder{Name: line(w.Name), Service: line(w.Service)}
		for _, rung := range ladder(w) {
			l.Rungs = append(l.Rungs, htmlRung{Name: line(rung.Name), State: word(rung.State), Glyph: stands[rung.State], Cause: clean(rung.Cause), Words: line(rung.Explanation)})
		}
		h.Ladders = append(h.Ladders, l)
	}
	if len(s.Attempts) > 1 {
		for _, a := range s.Attempts {
			h.Attempts = append(h.Attempts, r.attempt(a))
		}
	}
	for _, n := range s.Notes {
		h.Notes = append(h.Notes, htmlNotice{At: r.offset(n.Time), Text: clean(n.Text)})
	}
	for _, x := range s.HoldsAt(r.end) {
		h.Holds = append(h.Holds, htmlSum{line(holder(x)), words.Count(x.Requests, "request"), words.Brief(x.Longest), words.Brief(x.Total), clean(x.Cause), line(x.Explanation)})
	}
	for _, o := range outputs(s) {
		h.Outputs = append(h.Outputs, pair{line(o.Name), clean(o.Value)})
	}
}

func (r *run) attempt(a timeline.Attempt) htmlAttempt {
	to, came := a.To, line(string(a.State))
	if to.IsZero() {
		to, came = r.end, "at work"
	}
	if a.State == runner.StateRetrying {
		came = "failed, to be tried again"
	}
	return htmlAttempt{a.N, r.offset(a.From), words.Brief(to.Sub(a.From)), came, clean(a.Error), clean(a.Hint), a.State}
}
