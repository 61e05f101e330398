// Package expression is CEL over objects of a cluster as the API server understands
// it: with its functions and its limits. It knows nothing of what an expression is for.
package expression

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Environment returns what expressions on stored objects may use. To make it takes
// some milliseconds, so that is done when it is first needed.
var Environment = sync.OnceValue(func() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
})

// Expression is an expression that was compiled. It is safe for concurrent use.
type Expression struct {
	text    string
	typ     *cel.Type
	program cel.Program
}

// Compile compiles an expression over objects that it knows by names.
func Compile(text string, names ...string) (*Expression, error) {
	variables := make([]cel.EnvOption, len(names))
	for i, name := range names {
		variables[i] = cel.Variable(name, cel.DynType)
	}
	env, err := Environment().StoredExpressionsEnv().Extend(variables...)
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		errs := make([]string, 0, len(issues.Errors()))
		for _, e := range issues.Errors() {
			errs = append(errs, fmt.Sprintf("column %d: %s", e.Location.Column()+1, e.Message))
		}
		return nil, errors.New(strings.Join(errs, "; "))
	}
	// The limit is that of the API server for one expression, about 0.1 s.
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(celconfig.PerCallLimit))
	if err != nil {
		return nil, err
	}
	return &Expression{text, ast.OutputType(), program}, nil
}

// String returns the expression's text.
func (e *Expression) String() string { return e.text }

// Type returns the type of the expression's value.
func (e *Expression) Type() *cel.Type { return e.typ }

// Eval returns the expression's value for objects by name. The error says that there
// is none: a field is missing, or it takes too long.
func (e *Expression) Eval(objects map[string]any) (ref.Val, error) {
	value, _, err := e.program.Eval(objects)
	return value, err
}
