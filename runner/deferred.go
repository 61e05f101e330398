package runner

import (
	"context"
	"errors"
	"maps"

	"github.com/kplan-dev/kplan/plan"
)

// deferredAction is the action of one attempt of a deferred step: it reads what the
// step is made of, then makes and runs the step's own action.
type deferredAction struct {
	executor *executor
	task     *task
	attempt  int
	inputs   plan.Inputs // what the run itself knew when the attempt began
}

var _ Action = (*deferredAction)(nil)

// Run implements Action.
func (a *deferredAction) Run(ctx context.Context, r Reporter) error {
	asked := a.task.clusterInputs()
	if len(asked) > 0 {
		if a.executor.readInputs == nil {
			return Permanent(errors.New("the step asks for a value of a cluster, but none is asked"))
		}
		answers, err := a.executor.readInputs(ctx, asked)
		if err != nil {
			return err
		}
		maps.Copy(a.inputs, answers)
	}
	step, err := a.task.step.Bind(a.inputs)
	switch {
	case err != nil && len(asked) == 0:
		return Permanent(err) // the next attempt would know the same
	case err != nil:
		return err
	case step.Skip != "":
		return &skipError{step.Skip}
	case step.When == false:
		return &skipError{whenFalse}
	}
	action, err := a.executor.resolve(step)
	if err != nil {
		return err
	}
	a.executor.send(message{kind: messageBound, task: a.task, attempt: a.attempt})
	return action.Run(ctx, r)
}

// skipError says that a deferred step turned out not to run.
type skipError struct{ why string }

func (e *skipError) Error() string { return "skipped: " + e.why }
