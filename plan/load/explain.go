package load

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/expr"
)

// explain says of an expression that does not compile what may have been meant. It
// finds better words for some faults.
func (x *expander) explain(e *expr.Error) (hint string) {
	if e.Word != "" {
		return x.explainWord(e)
	}
	if e.Missing == "" {
		return ""
	}
	within := strings.Join(e.Path, ".")
	switch {
	case within == "vars":
		e.Message = fmt.Sprintf("no variable %q is declared", e.Missing)
		return x.nearHint(e, x.vars.Names(), "declare it under vars")
	case within == "steps":
		e.Message = fmt.Sprintf("there is no step %q", e.Missing)
		return x.nearHint(e, x.stepNames(), "")
	case within == "clusters":
		e.Message = fmt.Sprintf("there is no cluster %q", e.Missing)
		return x.nearHint(e, slices.Sorted(maps.Keys(x.clusters())), "declare it under clusters")
	case len(e.Path) >= 3 && e.Path[0] == "steps" && e.Path[len(e.Path)-1] == "outputs":
		step := x.byName[e.Path[1]]
		e.Message = fmt.Sprintf("the step %q has no output %q", strings.Join(e.Path[1:len(e.Path)-1], "/"), e.Missing)
		if step == nil || len(step.outputs) == 0 {
			return "declare it under outputs of the step"
		}
		return x.nearHint(e, slices.Sorted(maps.Keys(step.outputs)), "declare it under outputs of the step")
	case len(e.Path) >= 2 && e.Path[0] == "steps":
		return "a step has state, changed and outputs"
	case within == "each":
		return x.nearHint(e, []string{"key", "value"}, "")
	case within == "plan":
		return x.nearHint(e, []string{"name", "description"}, "")
	case len(e.Path) == 2 && e.Path[0] == "clusters":
		return x.nearHint(e, []string{"name", "context", "kubeconfig", "namespace"}, "")
	case len(e.Path) > 0:
		return ""
	case strings.Contains(e.Message, "function"):
		return ""
	}
	return x.explainName(e)
}

// explainName explains a name that an expression cannot start with.
func (x *expander) explainName(e *expr.Error) string {
	switch {
	case e.Missing == "each":
		e.Message = "each is known in the fields of a step with for_each only"
		return ""
	case e.Missing == "steps":
		what := x.static
		if what == "" {
			what = "this"
		}
		e.Message = what + " must be known when the file is read, but what steps give is known only when a step starts"
		return ""
	case slices.Contains([]string{"plan", "clusters"}, e.Missing):
		e.Message = e.Missing + " cannot be read here"
		return ""
	case slices.Contains(x.vars.Names(), e.Missing):
		return fmt.Sprintf("did you mean vars.%s?", e.Missing)
	case slices.Contains([]string{"env", "secrets", "github", "inputs"}, e.Missing):
		return "declare a variable with env, secret or config_map, and read it as vars.NAME"
	}
	return x.nearHint(e, []string{"vars", "each", "steps", "clusters", "plan"}, literalHint)
}

// explainWord explains a comparison that never holds.
func (x *expander) explainWord(e *expr.Error) string {
	name := strings.Join(e.Path, ".")
	e.Message = fmt.Sprintf("%s is never %q", name, e.Word)
	if e.Word == unchanged {
		return "a step with nothing to do has succeeded too: ask " + strings.TrimSuffix(name, "state") + "changed"
	}
	if hint := x.near.Hint(e.Word, e.Words); hint != "" {
		return hint
	}
	return "it is " + document.OrList(e.Words)
}

// nearHint offers the name that is most like the one that is missing.
func (x *expander) nearHint(e *expr.Error, names []string, otherwise string) string {
	near := x.near.Find(e.Missing, names)
	if near == "" {
		return otherwise
	}
	return fmt.Sprintf("did you mean %s?", strings.Join(append(slices.Clone(e.Path), near), "."))
}

// stepNames are the names of the file's steps.
func (f *file) stepNames() []string {
	names := make([]string, 0, len(f.decls))
	for _, e := range f.decls {
		if e.name != "" {
			names = append(names, e.name)
		}
	}
	return names
}

// The states of a step that has ended, as package runner names them.
const (
	succeeded = "succeeded"
	unchanged = "unchanged"
	failed    = "failed"
	skipping  = "skipped"
	blocked   = "blocked"
	cancelled = "cancelled"
)

// endStates are those that expressions see. A step with nothing to do has succeeded
// for them, so that a plan does the same when it is run again; they see the
// difference in changed.
var endStates = []string{succeeded, failed, skipping, blocked, cancelled}

// seen is what expressions see of an answer.
func (a reference) seen(answer any) any {
	state, ok := answer.(string)
	switch {
	case a.input.Step == "" || a.input.Output != "" || !ok:
	case a.path[len(a.path)-1] == "changed": // a step that failed may have changed something
		return state == succeeded || state == failed || state == cancelled
	case state == unchanged:
		return succeeded
	}
	return answer
}

// explainOutput finds better words for an expression that has no value because a
// step did not give an output.
func (x *expander) explainOutput(p *expr.Program, e *expr.Error) (hint string) {
	if x.scope.answers == nil {
		return ""
	}
	for _, r := range p.Refs() {
		if r.Path[0] != "steps" || len(r.Path) < 2 || x.byName[r.Path[1]] == nil {
			continue
		}
		for _, a := range x.byName[r.Path[1]].refs[strings.Join(r.Path, ".")] {
			_, given := x.scope.answers[a.input]
			if given || a.input.Output == "" || len(a.path) > len(r.Path) || !slices.Equal(a.path, r.Path[:len(a.path)]) {
				continue
			}
			why := "gave no"
			switch state := x.scope.answers[plan.Input{Step: a.input.Step}]; state {
			case skipping, blocked, cancelled:
				why = fmt.Sprintf("was %s, so it has no", state)
			case failed:
				why = "has failed, so it has no"
			}
			e.Message = fmt.Sprintf("the step %q %s output %q", a.input.Step, why, a.input.Output)
			return "ask has(" + strings.Join(a.path, ".") + ")"
		}
	}
	return ""
}
