package plan

import (
	"errors"
	"fmt"
	"strings"
)

// ConditionType says what a wait step looks at.
type ConditionType string

// What a wait step can look at.
const (
	// ConditionStatus is a condition in status.conditions.
	ConditionStatus ConditionType = "condition"
	// ConditionJSONPath is a value anywhere in the object.
	ConditionJSONPath ConditionType = "jsonpath"
	// ConditionReady is that the object is ready, as other kinds of steps judge it. It is
	// kplan's own.
	ConditionReady ConditionType = "ready"
	// ConditionCreate is that the object exists.
	ConditionCreate ConditionType = "create"
	// ConditionDelete is that it does not.
	ConditionDelete ConditionType = "delete"
)

// Condition is what wait.for says, parsed. The syntax is that of kubectl wait
// (k8s.io/kubectl/pkg/cmd/wait).
type Condition struct {
	Type ConditionType
	// Name is the condition's type, for ConditionStatus. kubectl compares it
	// without regard to case, as it does Value.
	Name string
	// Path is the expression with its braces, for ConditionJSONPath.
	Path string
	// Value is what the condition's status must be ("true" unless given), or
	// what the path must give; "" for a path that only has to give something.
	Value string
}

// String writes the condition as wait.for has it.
func (c Condition) String() string {
	switch c.Type {
	case ConditionStatus:
		return "condition=" + c.Name + "=" + c.Value
	case ConditionJSONPath:
		if c.Value != "" {
			return "jsonpath=" + c.Path + "=" + c.Value
		}
		return "jsonpath=" + c.Path
	default: // ready, create and delete have nothing to add
		return string(c.Type)
	}
}

// Condition parses the field for.
func (w Wait) Condition() (Condition, error) {
	kind, rest, found := strings.Cut(w.For, "=")
	switch ConditionType(kind) {
	case ConditionReady, ConditionCreate, ConditionDelete:
		if found {
			return Condition{}, fmt.Errorf("%s takes no value", kind)
		}
		return Condition{Type: ConditionType(kind)}, nil
	case ConditionStatus:
		name, value, given := strings.Cut(rest, "=")
		if name == "" {
			return Condition{}, errors.New("the condition has no name")
		}
		if given && value == "" {
			return Condition{}, errors.New("the condition's value is missing after the second =")
		}
		if !given {
			value = "true"
		}
		return Condition{Type: ConditionStatus, Name: name, Value: value}, nil
	case ConditionJSONPath:
		return jsonPathCondition(rest)
	}
	return Condition{}, fmt.Errorf("%q is not understood", w.For)
}

// jsonPathCondition parses {EXPR}, {EXPR}=VALUE, and the same without braces.
func jsonPathCondition(s string) (Condition, error) {
	c := Condition{Type: ConditionJSONPath}
	var rest string
	if strings.HasPrefix(s, "{") {
		end, err := closingBrace(s)
		if err != nil {
			return Condition{}, err
		}
		c.Path, rest = s[:end+1], s[end+1:]
	} else {
		expr, _, _ := strings.Cut(s, "=")
		rest = s[len(expr):]
		if expr != "" && expr[0] != '.' {
			expr = "." + expr
		}
		c.Path = "{" + expr + "}"
	}
	if strings.Trim(c.Path, "{} ") == "" {
		return Condition{}, errors.New("the path is empty")
	}
	if rest == "" {
		return c, nil
	}
	c.Value = strings.Trim(strings.TrimPrefix(rest, "="), `'"`)
	if rest[0] != '=' || c.Value == "" {
		return Condition{}, errors.New("after the path =VALUE is expected, or nothing")
	}
	return c, nil
}

// JSONPaths returns what stands between the braces of a path as kubectl -o jsonpath
// takes it, such as [.metadata.name].
func JSONPaths(text string) (paths []string, err error) {
	for {
		i := strings.IndexByte(text, '{')
		if i < 0 {
			return paths, nil
		}
		end, err := closingBrace(text[i:])
		if err != nil {
			return nil, err
		}
		if path := strings.Trim(text[i:i+end+1], "{} "); path != "" {
			paths = append(paths, path)
		}
		text = text[i+end+1:]
	}
}

// closingBrace finds the brace that closes the one at the start of s.
func closingBrace(s string) (int, error) {
	depth := 0
	var quote byte
	for i := 0; i < len(s); i++ {
		switch ch := s[i]; {
		case quote != 0:
			switch ch {
			case '\\':
				i++
			case quote:
				quote = 0
			}
		case ch == '"' || ch == '\'':
			quote = ch
		case ch == '{':
			depth++
		case ch == '}':
			if depth--; depth == 0 {
				return i, nil
			}
		}
	}
	if quote != 0 {
		return 0, fmt.Errorf("a quote %c in the path is not closed", quote)
	}
	return 0, errors.New("the brace { is not closed")
}
