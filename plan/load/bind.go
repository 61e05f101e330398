package load

import (
	"maps"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
)

// bind resolves, decodes and checks a deferred step: see Step.Bind.
func (it *instance) bind(s plan.Step, o inherited, known plan.Inputs) (plan.Step, error) {
	for _, outer := range o.whens {
		run, err := outer.whenHolds(known)
		if err != nil {
			return plan.Step{}, err
		}
		if !run {
			return skipped(s), nil
		}
	}
	c := it.decl.file
	c.binding.Lock()
	defer c.binding.Unlock()
	b := c.again()
	now := &instance{decl: it.decl, key: it.key, value: it.value}
	scope := b.deferredScope(it, known)
	b.expandInstance(now, scope)
	if now.skip { // what else is not known is of no matter
		return skipped(s), nil
	}
	b.decodeStep(now)
	b.evaluate(now, scope)
	if b.onDisk {
		fileFinder{b}.step(now.step, it.decl.at)
	}
	full := now.step
	it.finish(&full, o)
	full.Needs, full.Last, full.Skip = s.Needs, s.Last, s.Skip
	newStepValidator(b, now).wholeStep(full)
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
	return newSession(&document.Faults{Secrets: c.plan.Sensitive}).pass(c)
}

// whenHolds reports whether the when of an include is true.
func (it *instance) whenHolds(known plan.Inputs) (bool, error) {
	c := it.decl.file
	c.binding.Lock()
	defer c.binding.Unlock()
	b := c.again()
	x := expander{pass: b, scope: b.deferredScope(it, known)}
	at := it.decl.at.Key("when")
	v := x.expand(it.decl.raw["when"], at)
	stepValidator{newValidator(b)}.checkWhen(v, at)
	return v == true, b.Err()
}

// deferredScope is what the expressions of a deferred step see once its inputs are known.
func (p *pass) deferredScope(it *instance, known plan.Inputs) *scope {
	s := p.stepScope(it)
	s.answers = known
	if s.answers == nil {
		s.answers = plan.Inputs{}
	}
	vars, _ := s.values["vars"].(map[string]any)
	vars, steps := maps.Clone(vars), map[string]any{}
	s.values = maps.Clone(s.values)
	s.values["vars"], s.values["steps"] = vars, steps
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
