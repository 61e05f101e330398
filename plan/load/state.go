package load

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/expr"
)

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
