package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/internal/nearest"
)

// Selection says which steps of a plan are run: those that meet all of what it
// says; the zero value picks every step.
type Selection struct {
	// Tags picks steps that have one of these tags, SkipTags those that have none
	// of them.
	Tags, SkipTags []string
	// Only picks the named steps, From these and all that need one of them, directly
	// or not, Until these and all that one of them needs. The name of a for_each or
	// an include means all of its steps.
	Only, From, Until []string
}

// SelectionError says that a name given to a flag means nothing that the flag takes,
// or that a Selection picks no step, or not one that another needs.
type SelectionError struct{ message, hint string }

func (e *SelectionError) Error() string { return e.message }

// Hint says what was most likely meant, or what to do about it; "" when nobody knows.
func (e *SelectionError) Hint() string { return e.hint }

// Select sets Skip of the steps that s does not pick, and says why in it. The
// plan's finally steps run whatever is picked; only SkipTags, and Only where it
// does not name them, leave them out. The error is a *SelectionError; the plan is
// unchanged then.
func (p *Plan) Select(s Selection) error {
	x := selector{plan: p, skip: map[int]string{}}
	g := p.Graph()
	alone := func(...string) []string { return nil }
	if err := cmp.Or(
		x.steps("--only", s.Only, alone), x.steps("--from", s.From, g.Descendants), x.steps("--until", s.Until, g.Ancestors),
		x.tags(s.Tags, s.SkipTags),
	); err != nil {
		return err
	}
	return x.apply(s.Only)
}

// selector puts the parts of a Selection together.
type selector struct {
	plan *Plan
	// skip says why a step is left out, by its place in the plan: the first of the
	// reasons.
	skip map[int]string
}

// steps leaves out all but the named steps and those that they lead to.
func (x *selector) steps(flag string, names []string, leadTo func(...string) []string) error {
	if len(names) == 0 {
		return nil
	}
	var picked []string
	for _, name := range names {
		before := len(picked)
		for _, s := range x.plan.Steps {
			if s.IsPart(name) {
				picked = append(picked, s.Name)
			}
		}
		if len(picked) == before {
			return unknown(flag, "step", name, x.plan.StepNames())
		}
	}
	picked = append(picked, leadTo(picked...)...)
	slices.Sort(picked)
	why := notPicked + flag + " " + strings.Join(names, ", ")
	for i, s := range x.plan.Steps {
		if _, is := slices.BinarySearch(picked, s.Name); !is && (!s.Last || flag == "--only") {
			x.skip[i] = cmp.Or(x.skip[i], why)
		}
	}
	return nil
}

// tags leaves out steps by their tags.
func (x *selector) tags(tags, skip []string) error {
	all := x.plan.TagNames()
	for _, c := range []struct {
		flag  string
		names []string
	}{{"--tags", tags}, {"--skip-tags", skip}} {
		for _, name := range c.names {
			if !slices.Contains(all, name) {
				return unknown(c.flag, "tag", name, all)
			}
		}
	}
	for i, s := range x.plan.Steps {
		has := func(tag string) bool { return slices.Contains(s.Tags, tag) }
		if j := slices.IndexFunc(skip, has); j >= 0 {
			x.skip[i] = cmp.Or(x.skip[i], leftOut+"--skip-tags "+skip[j])
		}
		if len(tags) > 0 && !s.Last && !slices.ContainsFunc(tags, has) {
			x.skip[i] = cmp.Or(x.skip[i], notPicked+"--tags "+strings.Join(tags, ", "))
		}
	}
	return nil
}

// unknown says that there is no step or tag of a name, and which was most likely meant.
func unknown(flag, what, name string, there []string) error {
	return &SelectionError{fmt.Sprintf("%s: there is no %s %q", flag, what, name), new(nearest.Finder).Hint(name, there)}
}

// apply writes down what is left out.
func (x *selector) apply(only []string) error {
	picked := false
	for i, s := range x.plan.Steps {
		picked = picked || x.skip[i] == "" && (!s.Last || slices.ContainsFunc(only, s.IsPart))
	}
	if !picked && len(x.skip) > 0 {
		return &SelectionError{message: "no step of the plan is picked"}
	}
	if err := x.checkReads(); err != nil {
		return err
	}
	for i, why := range x.skip {
		if x.plan.Steps[i].Skip == "" {
			x.plan.Steps[i].Skip = why
		}
	}
	return nil
}

// checkReads looks whether the steps that are picked read outputs of those that are
// left out.
func (x *selector) checkReads() error {
	out := map[string]string{} // what leaves a step out
	for i, why := range x.skip {
		if s := x.plan.Steps[i]; s.Skip == "" {
			out[s.Name] = strings.TrimPrefix(strings.TrimPrefix(why, notPicked), leftOut)
		}
	}
	for i, s := range x.plan.Steps {
		if x.skip[i] != "" || s.Skip != "" || s.Pending == nil {
			continue
		}
		for _, a := range s.Pending.Must {
			if by := out[a.Step]; by != "" {
				return &SelectionError{
					fmt.Sprintf("%s reads an output of %s, which %s leaves out", s.Name, a.Step, by),
					fmt.Sprintf("pick %s too, or ask for its output %s with has(…)", a.Step, a.Output),
				}
			}
		}
	}
	return nil
}

// What the reasons of a selection start with.
const (
	notPicked = "not picked by "
	leftOut   = "left out by "
)

// IsPart reports whether a name means the step: its own, that of the group which it
// is an item of, or that of an include which it came from.
func (s Step) IsPart(name string) bool {
	rest, ok := strings.CutPrefix(s.Name, name)
	return ok && name != "" && (rest == "" || rest[0] == '/' || rest[0] == '[')
}

// StepNames are the names that a Selection takes: of all steps, and of the groups
// and includes which they came from, in plan order.
func (p *Plan) StepNames() []string {
	var names []string
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for _, s := range p.Steps {
		for i, r := range s.Name {
			if r == '/' || r == '[' {
				add(s.Name[:i])
			}
			if r == '[' { // what follows is an item's key, which may hold anything
				break
			}
		}
		add(s.Name)
	}
	return names
}

// TagNames are the tags of the plan's steps, sorted, each once.
func (p *Plan) TagNames() []string {
	var tags []string
	for _, s := range p.Steps {
		tags = append(tags, s.Tags...)
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}
