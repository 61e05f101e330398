package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan/internal/nearest"
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

// UnknownError says that a Selection names what the plan does not have.
type UnknownError struct {
	// Flag is the flag of kplan run that takes the name.
	Flag string
	// What is not there: a step or a tag.
	What string
	Name string
	// Near is the name that was most likely meant; "" when none is near.
	Near string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("%s: there is no %s %q", e.Flag, e.What, e.Name)
}

// Hint says what was most likely meant.
func (e *UnknownError) Hint() string {
	if e.Near == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", e.Near)
}

// NothingPickedError says that a Selection leaves no step.
type NothingPickedError struct{}

func (*NothingPickedError) Error() string { return "no step of the plan is picked" }

// LeftOutError says that a Selection leaves out a step whose output one reads that
// it picks.
type LeftOutError struct {
	// Step reads Output of the step Of.
	Step, Of, Output string
	// By is what leaves Of out, such as --from b.
	By string
}

func (e *LeftOutError) Error() string {
	return fmt.Sprintf("%s reads an output of %s, which %s leaves out", e.Step, e.Of, e.By)
}

// Hint says how the step can do without.
func (e *LeftOutError) Hint() string {
	return fmt.Sprintf("pick %s too, or ask for its output %s with has(…)", e.Of, e.Output)
}

// Select sets Skip of the steps that s does not pick, and says why in it. The
// plan's finally steps run whatever is picked; only SkipTags, and Only where it
// does not name them, leave them out. The error is an *UnknownError, a
// *NothingPickedError or a *LeftOutError; the plan is unchanged then.
func (p *Plan) Select(s Selection) error {
	x := selector{plan: p}
	for _, c := range []struct {
		flag  string
		names []string
		next  func(*Graph, string) []string
	}{
		{"--only", s.Only, func(*Graph, string) []string { return nil }},
		{"--from", s.From, (*Graph).Dependents},
		{"--until", s.Until, (*Graph).Needs},
	} {
		if err := x.steps(c.flag, c.names, c.next); err != nil {
			return err
		}
	}
	if err := x.tags(s.Tags, s.SkipTags); err != nil {
		return err
	}
	return x.apply(s.Only)
}

// selector puts the parts of a Selection together.
type selector struct {
	plan *Plan
	// skip says why a step is left out, by its place in the plan.
	skip map[int]string
}

// leave leaves out a step, unless another part does so already.
func (x *selector) leave(i int, why string) {
	if x.skip == nil {
		x.skip = map[int]string{}
	}
	if x.skip[i] == "" {
		x.skip[i] = why
	}
}

// steps leaves out all but the named steps, and those to which next leads from
// them over any number of others.
func (x *selector) steps(flag string, names []string, next func(*Graph, string) []string) error {
	if len(names) == 0 {
		return nil
	}
	picked := map[string]bool{}
	var todo []string
	for _, name := range names {
		found := false
		for _, s := range x.plan.Steps {
			if s.IsPart(name) {
				found, picked[s.Name] = true, true
				todo = append(todo, s.Name)
			}
		}
		if !found {
			return x.unknown(flag, "step", name, x.plan.StepNames())
		}
	}
	for g := x.plan.Graph(); len(todo) > 0; todo = todo[1:] {
		for _, name := range next(g, todo[0]) {
			if !picked[name] {
				picked[name] = true
				todo = append(todo, name)
			}
		}
	}
	why := notPicked + flag + " " + strings.Join(names, ", ")
	for i, s := range x.plan.Steps {
		if !picked[s.Name] && (!s.Last || flag == "--only") {
			x.leave(i, why)
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
				return x.unknown(c.flag, "tag", name, all)
			}
		}
	}
	for i, s := range x.plan.Steps {
		has := func(tag string) bool { return slices.Contains(s.Tags, tag) }
		if j := slices.IndexFunc(skip, has); j >= 0 {
			x.leave(i, leftOut+"--skip-tags "+skip[j])
		}
		if len(tags) > 0 && !s.Last && !slices.ContainsFunc(tags, has) {
			x.leave(i, notPicked+"--tags "+strings.Join(tags, ", "))
		}
	}
	return nil
}

func (x *selector) unknown(flag, what, name string, there []string) error {
	return &UnknownError{Flag: flag, What: what, Name: name, Near: new(nearest.Finder).Find(name, there)}
}

// apply writes down what is left out.
func (x *selector) apply(only []string) error {
	picked := false
	for i, s := range x.plan.Steps {
		picked = picked || x.skip[i] == "" && (!s.Last || slices.ContainsFunc(only, s.IsPart))
	}
	if !picked && len(x.skip) > 0 {
		return &NothingPickedError{}
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
				return &LeftOutError{Step: s.Name, Of: a.Step, Output: a.Output, By: by}
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
	tags := map[string]bool{}
	for _, s := range p.Steps {
		for _, t := range s.Tags {
			tags[t] = true
		}
	}
	return slices.Sorted(maps.Keys(tags))
}
