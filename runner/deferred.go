package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kplan-dev/kplan/plan"
)

// late is the action of one attempt of a late step: it finds out what the step
// asks for, then makes and runs the step's own action.
type deferredAction struct {
	loop    *loop
	task    *task
	attempt int
	known   plan.Inputs // what the loop itself knew when the attempt began
}

var _ Action = (*deferredAction)(nil)

// lateAction makes the action of t's attempt that begins now.
func (l *loop) deferredAction(t *task) *deferredAction {
	a := &deferredAction{loop: l, task: t, attempt: t.attempt, known: plan.Inputs{}}
	for _, ask := range t.asks {
		asked := l.byName[ask.Step]
		switch {
		case asked == nil: // from a cluster
			continue
		case l.state(asked).Good() && ask.Output != "":
			if v, ok := asked.outputs[ask.Output]; ok {
				a.known[ask] = v
			}
		}
		a.known[plan.Input{Step: ask.Step}] = string(l.state(asked))
	}
	return a
}

// asksCluster tells whether a cluster must be asked before t can start.
func (t *task) asksCluster() bool { return slices.ContainsFunc(t.asks, ofCluster) }

func ofCluster(a plan.Input) bool { return a.Step == "" }

// Run implements Action.
func (a *deferredAction) Run(ctx context.Context, r Reporter) error {
	if a.task.asksCluster() {
		if a.loop.readInputs == nil {
			return Permanent(errors.New("the step asks for a value of a cluster, but none is asked"))
		}
		answers, err := a.loop.readInputs(ctx, slices.DeleteFunc(slices.Clone(a.task.asks), func(ask plan.Input) bool { return !ofCluster(ask) }))
		if err != nil {
			return err
		}
		maps.Copy(a.known, answers)
	}
	step, err := a.task.step.Bind(a.known)
	switch {
	case err != nil && !a.task.asksCluster():
		return Permanent(err) // the next attempt would know the same
	case err != nil:
		return err
	case step.Skip != "":
		return &skipError{step.Skip}
	case step.When == false:
		return &skipError{whenFalse}
	}
	action, err := a.loop.resolver(step)
	if err != nil {
		return err
	}
	a.loop.send(message{task: a.task, attempt: a.attempt, kind: messageBound})
	return action.Run(ctx, r)
}

// skipError says that a late step turned out not to run.
type skipError struct{ why string }

func (e *skipError) Error() string { return fmt.Sprintf("skipped: %s", e.why) }
