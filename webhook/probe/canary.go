package probe

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/expression"
)

// Want is what is expected of a canary.
type Want string

// What can be expected.
const (
	// Accept: it is admitted. With failurePolicy Ignore that proves nothing.
	Accept Want = "accept"
	// Deny: a webhook that is wanted denies it.
	Deny Want = "deny"
	// Mutate: it is admitted, and changed so that an expression is true.
	Mutate Want = "mutate"
)

// Canary is an object whose dry run ends as expected if the webhook works.
type Canary struct {
	Want   Want
	Object *unstructured.Unstructured
	// Expect is what Mutate expects.
	Expect *Condition
	// Source says where the object comes from, for people.
	Source string
}

// String names the canary for people.
func (c Canary) String() string {
	return fmt.Sprintf("%s canary %s (%s)", c.Want, c.Source, webhook.Object{
		Kind: c.Object.GetKind(), Namespace: c.Object.GetNamespace(), Name: c.Object.GetName(),
	})
}

// RefusedError says that a canary was answered otherwise than expected, in a way
// that waiting does not change.
type RefusedError struct {
	Canary Canary
	// Webhook denied the canary; it is empty when the API server refused it by
	// itself.
	Webhook string
	// Forbidden says that it is the authorizer who refused it.
	Forbidden bool
	// Message is what was said.
	Message string
}

func (e *RefusedError) Error() string {
	switch {
	case e.Forbidden:
		return fmt.Sprintf("the user may not create the %s: %s", e.Canary, e.Message)
	case e.Webhook == "":
		return fmt.Sprintf("the API server refuses the %s by itself, so that it shows nothing of webhooks: %s", e.Canary, e.Message)
	}
	return fmt.Sprintf("webhook %q denies the %s: %s", e.Webhook, e.Canary, e.Message)
}

// Condition is a CEL expression that tells whether a mutating webhook changed an
// object: over object, as it was admitted, and original, as it was sent.
type Condition struct{ *expression.Expression }

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

// Holds reports whether the condition is true. The error says that it is neither true
// nor false: a field is missing, or it takes too long.
func (c *Condition) Holds(object, original *unstructured.Unstructured) (bool, error) {
	value, err := c.Eval(map[string]any{"object": object.Object, "original": original.Object})
	if err != nil {
		return false, err
	}
	holds, ok := value.(types.Bool)
	if !ok {
		return false, fmt.Errorf("it gives %s, not true or false", value.Type().TypeName())
	}
	return bool(holds), nil
}
