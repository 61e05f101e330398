package load

import (
	"maps"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
)

// bind resolves, decodes and checks a deferred step: see Step.Bind.
func (c *file) bind(s plan.Step, e *stepDecl, it *instance, o inherited, known plan.Inputs) (plan.Step, error) {
	for _, w := range o.whens {
		run, err := w.holds(known)
		if err != nil {
			return plan.Step{}, err
		}
		if !run {
			return skipped(s), nil
		}
	}
	c.binding.Lock()
	defer c.binding.Unlock()
	b := c.again()
	scope := b.deferredScope(e, it, known)
	now := &instance{key: it.key, value: it.value}
	now.tree, now.secretAt = b.expandInstance(e, scope, true)
	if now.tree["when"] == false { // what else is not known is of no matter
		return skipped(s), nil
	}
	b.decodeStep(e, now, &now.step)
	if b.onDisk {
		fileFinder{b}.step(now.step, e.at)
	}
	full := now.step
	b.finish(&full, e, it, o)
	full.Needs, full.Last, full.Skip = s.Needs, s.Last, s.Skip
	stepValidator{validator{b, e.at, now.tree}}.wholeStep(full)
	if err := b.Err(); err != nil {
		return plan.Step{}, err
	}
	return full, nil
}

func skipped(s plan.Step) plan.Step {
	s.When, s.Skip, s.Pending = false, whenFalse, nil
	return s
}

// again is a pass for a second look at the file.
func (c *file) again() *pass {
	return newSession(&document.Faults{Secrets: c.plan.Sensitive}).pass(c, c.source)
}

// holds reports whether the when of an include is true.
func (w when) holds(known plan.Inputs) (bool, error) {
	w.c.binding.Lock()
	defer w.c.binding.Unlock()
	b := w.c.again()
	x := expander{pass: b, scope: b.deferredScope(w.e, w.it, known)}
	at := w.e.at.Key("when")
	v := x.expand(w.e.raw["when"], at)
	stepValidator{b.validator()}.checkWhen(v, at)
	return v == true, b.Err()
}

// deferredScope is what the expressions of a deferred step see once its inputs are known.
func (p *pass) deferredScope(e *stepDecl, it *instance, known plan.Inputs) *scope {
	s := p.stepScope(e, it)
	s.answers = known
	if s.answers == nil {
		s.answers = plan.Inputs{}
	}
	s.values = maps.Clone(s.values)
	vars, _ := s.values["vars"].(map[string]any)
	vars = maps.Clone(vars)
	s.values["vars"] = vars
	steps := map[string]any{}
	s.values["steps"] = steps
	for _, a := range it.refs {
		answer, ok := known[a.input]
		switch {
		case a.path[0] == "vars":
			vars[a.path[1]] = p.vars.Answer(p.Reporter, &p.near, a.path[1], answer)
		case a.input == (plan.Input{}):
			below(steps, a.path[1:])
		default:
			last := len(a.path) - 1
			m := below(steps, a.path[1:last])
			if ok {
				m[a.path[last]] = a.seen(answer)
			}
		}
	}
	return s
}

// below returns the map at a path of maps, which it makes where they are missing.
func below(m map[string]any, at []string) map[string]any {
	for _, name := range at {
		next, ok := m[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			m[name] = next
		}
		m = next
	}
	return m
}
