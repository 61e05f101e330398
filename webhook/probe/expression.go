package probe

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Expression is a CEL expression that tells whether a mutating webhook changed
// an object: over object, as it was admitted, and original, as it was sent. It
// has the API server's own functions.
type Expression struct {
	text    string
	program cel.Program
}

// celEnv takes some milliseconds to build.
var celEnv = sync.OnceValues(func() (*cel.Env, error) {
	base, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        []cel.EnvOption{cel.Variable("object", cel.DynType), cel.Variable("original", cel.DynType)},
	})
	if err != nil {
		return nil, err
	}
	return base.StoredExpressionsEnv(), nil
})

// Compile reads an expression, and fails where it can never be true or false.
func Compile(text string) (*Expression, error) {
	env, err := celEnv()
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
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("it gives %s, not true or false", t)
	}
	// The limit is that of the API server for one expression, about 0.1 s.
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(celconfig.PerCallLimit))
	if err != nil {
		return nil, err
	}
	return &Expression{text, program}, nil
}

// String gives the expression's text.
func (e *Expression) String() string { return e.text }

// Holds evaluates the expression. The error says that it cannot be: a field is
// missing, or it takes too long.
func (e *Expression) Holds(object, original *unstructured.Unstructured) (bool, error) {
	value, _, err := e.program.Eval(map[string]any{"object": object.Object, "original": original.Object})
	if err != nil {
		return false, err
	}
	holds, ok := value.(types.Bool)
	if !ok {
		return false, fmt.Errorf("it gives %s, not true or false", value.Type().TypeName())
	}
	return bool(holds), nil
}
