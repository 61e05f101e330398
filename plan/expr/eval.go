package expr

import (
	"context"
	"errors"

	"github.com/google/cel-go/common/types"
)

// Budget bounds the cost of many evaluations together. The zero value has nothing
// left. It is not safe for concurrent use.
type Budget struct{ left uint64 }

// NewBudget returns what the expressions of one plan may cost: about a second.
func NewBudget() *Budget { return &Budget{left: 50 * maxCost} }

// Eval returns the expression's value: nil, bool, int64, float64, string,
// json.Number, []any or map[string]any. Values are those of the root's fields.
// What is given and what was given before share nothing. The error is an *Error,
// whose message has no value in it: values may be secret.
func (p *Program) Eval(values map[string]any, budget *Budget) (any, error) {
	var c converter
	if p.path != nil {
		v, err := follow(values, p.path)
		if err != nil {
			return nil, err
		}
		v, err = c.convert(adapter{}.NativeToValue(v)) // a copy, as of any other value
		return v, p.wrap(err)
	}
	if budget.left == 0 {
		return nil, &Error{Message: "the expressions of the plan take too long"}
	}
	program, err := p.program()
	if err != nil {
		return nil, p.wrap(err)
	}
	out, details, err := program.ContextEval(ended, values)
	if cost := details.ActualCost(); cost != nil {
		budget.left -= min(budget.left, *cost+(*cost/50)*(*cost/50))
	}
	if err != nil {
		return nil, p.evalError(err)
	}
	if types.IsUnknownOrError(out) {
		return nil, p.evalError(errors.New("the value is not known"))
	}
	v, err := c.convert(out)
	return v, p.wrap(err)
}

// ended is a context that is over: CEL looks at it after maxIterations.
var ended = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("the expression takes too long"))
	return ctx
}()

func (p *Program) wrap(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Message: err.Error()}
}
