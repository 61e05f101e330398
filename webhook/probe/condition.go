package probe

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/webhook/expression"
)

// Condition is a CEL expression that tells whether a mutating webhook changed an
// object: over object, as it was admitted, and original, as it was sent.
type Condition struct{ expression *expression.Expression }

// Compile compiles a condition, and fails where it can never be true or false.
func Compile(text string) (*Condition, error) {
	e, err := expression.Compile(text, "object", "original")
	if err != nil {
		return nil, err
	}
	if t := e.Type(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("it gives %s, not true or false", t)
	}
	return &Condition{e}, nil
}

// String returns the condition's text.
func (c *Condition) String() string { return c.expression.String() }

// Holds reports whether the condition is true. The error says that it is neither true
// nor false: a field is missing, or it takes too long.
func (c *Condition) Holds(object, original *unstructured.Unstructured) (bool, error) {
	value, err := c.expression.Eval(map[string]any{"object": object.Object, "original": original.Object})
	if err != nil {
		return false, err
	}
	holds, ok := value.(types.Bool)
	if !ok {
		return false, fmt.Errorf("it gives %s, not true or false", value.Type().TypeName())
	}
	return bool(holds), nil
}
