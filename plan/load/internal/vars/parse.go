package vars

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
)

// typeOf is the type of variable that v would be the value of.
func typeOf(v any) plan.VarType {
	switch v.(type) {
	case string:
		return plan.VarString
	case bool:
		return plan.VarBoolean
	case int64, float64, json.Number:
		return plan.VarNumber
	case []any:
		return plan.VarList
	case map[string]any:
		return plan.VarMap
	}
	return plan.VarAny
}

// hasType reports whether v is of a type.
func hasType(v any, t plan.VarType) bool {
	if t == plan.VarInteger {
		_, ok := v.(int64)
		return ok
	}
	return t == plan.VarAny || v != nil && typeOf(v) == t
}

// typeNouns say in words what a value of a type is.
var typeNouns = map[plan.VarType]string{
	plan.VarString: "text", plan.VarNumber: "a number", plan.VarInteger: "a whole number", plan.VarBoolean: "true or false",
	plan.VarList: "a list", plan.VarMap: "a mapping", plan.VarAny: "a value",
}

var wholeNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

// parseValue reads a value of a type from text, as the documentation of Options says.
// The error shows text.
func parseValue(text string, t plan.VarType) (any, error) {
	trimmed := strings.TrimSpace(text)
	switch t {
	case plan.VarString:
		return text, nil
	case plan.VarBoolean:
		if trimmed == "true" || trimmed == "false" {
			return trimmed == "true", nil
		}
	case plan.VarInteger, plan.VarNumber:
		v := document.PlainNumbers(json.Number(trimmed))
		_, huge := v.(json.Number)
		if json.Valid([]byte(trimmed)) && (!huge || wholeNumber.MatchString(trimmed)) && hasType(v, t) {
			return v, nil
		}
	case plan.VarList, plan.VarMap:
		v, err := parseFlow(text)
		if err != nil {
			return nil, err
		}
		if hasType(v, t) {
			return v, nil
		}
		return nil, &typeError{document.Describe(v)}
	case plan.VarAny:
		return parseUntyped(text)
	}
	return nil, &typeError{strconv.Quote(document.Cut(text, 60))}
}

// typeError says that a value is not of its variable's type.
type typeError struct{ got string }

func (e *typeError) Error() string { return "got " + e.got }

// parseUntyped reads a value as helm --set does.
func parseUntyped(text string) (any, error) {
	switch {
	case text == "true", text == "false":
		return text == "true", nil
	case text == "null":
		return nil, nil
	case wholeNumber.MatchString(text):
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i, nil
		}
		return text, nil
	case strings.HasPrefix(text, "["), strings.HasPrefix(text, "{"):
		return parseFlow(text)
	}
	return text, nil
}

// parseFlow reads YAML with the same care as a file.
func parseFlow(text string) (any, error) {
	var f document.Faults
	_, v, ok := document.Read("--set", []byte(text), document.Options{}, &f)
	if !ok {
		return nil, errors.New("the value is not valid YAML: " + f.First())
	}
	// helm writes lists as {a,b}, which YAML reads as a mapping of nothing.
	if m, ok := v.(map[string]any); ok && len(m) > 0 {
		empty := true
		for _, x := range m {
			empty = empty && x == nil
		}
		if empty {
			return nil, errors.New("the value is a mapping without values: write a list as [a, b]")
		}
	}
	return v, nil
}

// among reports whether v is one of the allowed values.
func among(allowed []any, v any) bool {
	for _, a := range allowed {
		if reflect.DeepEqual(a, v) || typeOf(a) == plan.VarNumber && typeOf(v) == plan.VarNumber && fmt.Sprint(a) == fmt.Sprint(v) {
			return true
		}
	}
	return false
}

// isEmpty reports whether a value says nothing.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return strings.TrimSpace(v) == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// literals writes values for a hint.
func literals(values []any) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = plan.Literal(v)
	}
	return document.Cut(strings.Join(words, ", "), 200)
}
