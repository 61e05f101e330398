package report

import (
	"cmp"
	"slices"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/timeline"
	"github.com/kplan-dev/kplan/runner"
)

// htmlStep is a step with its details.
type htmlStep struct {
	*timeline.Step
	Index                     int
	Name, Glyph               string
	State                     runner.State
	Critical                  bool
	Attempt, Took, Held, Note string
	Ladders                   []htmlLadder
	// Attempts are those of a step that had more than one.
	Attempts    []timeline.Attempt
	Needs       []htmlLink
	Blocks      []htmlLink
	MoreBlocks  int
	Guards      []string
	Objects     []*timeline.Object
	MoreObjects int
	Holds       []*runner.Hold
	Outputs     []pair
	Log         string
}

// htmlLadder is how a webhook stood when the step was last told of it.
type htmlLadder struct {
	Name, Service string
	Rungs         []timeline.Rung
}

func (w *pageWriter) step(i int, s *timeline.Step) *htmlStep {
	h := &htmlStep{
		Step: s, Index: i, Name: cmp.Or(line(s.Name), "(no name)"), State: stateOf(s), Glyph: cmp.Or(glyphs[s.State], "?"),
		Critical: slices.Contains(w.critical, s.Name), Attempt: attempt(s), Took: w.took(s), Held: w.held(s), Note: clean(w.note(s)),
		Holds: s.HoldsAt(w.end), Outputs: outputs(s),
	}
	for _, name := range s.Needs {
		l, ok := w.links[name]
		if !ok {
			l = htmlLink{Index: -1, Name: line(name)}
		}
		l.Text = string(s.NeedsOn[name])
		h.Needs = append(h.Needs, l)
	}
	const most = 50
	blocks := w.blocks[s.Name]
	for _, name := range blocks[:min(len(blocks), most)] {
		h.Blocks = append(h.Blocks, w.links[name])
	}
	h.MoreBlocks = len(blocks) - len(h.Blocks)
	for _, g := range w.x.Guards() {
		if g.Step == s.Name {
			h.Guards = append(h.Guards, line(g.String()))
		}
	}
	for _, x := range s.Webhooks {
		h.Ladders = append(h.Ladders, htmlLadder{Name: line(x.Name), Service: line(x.Service), Rungs: ladder(x)})
	}
	if len(s.Attempts) > 1 {
		h.Attempts = s.Attempts
	}
	return h
}

// addObjects fills in the objects of steps: those of steps that are not done come
// before others get what room is left.
func (w *pageWriter) addObjects() {
	room := htmlAllObjects
	for _, good := range []bool{false, true} {
		for _, h := range w.steps {
			if h.Step.State.Good() != good {
				continue
			}
			n := min(len(h.Step.Objects), htmlObjects, room)
			h.Objects, h.MoreObjects = h.Step.Objects[:n], len(h.Step.Objects)-n
			room -= n
		}
	}
}
