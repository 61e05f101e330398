package plan

import (
	"encoding/json"
	"strings"

	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/redact"
)

// Variable is a variable of a plan that was read, and where its value comes from.
type Variable struct {
	Name        string
	Description string
	// Type is as declared, else that of the default or of the allowed values.
	Type VarType
	// Value is nil when the variable is deferred, is invalid or has none. It is a secret
	// if Sensitive: see Shown.
	Value any
	// Source says who gives the value; "" when nobody does.
	Source VarSource
	// Origin is where the value stands, for a default, a var file and an include.
	Origin document.Origin
	// Env is the environment variable that gives the value, with SourceEnv.
	Env string
	// Ref is the key that gives the value, with SourceSecret and SourceConfigMap.
	Ref *KeyRef
	// Deferred says that the value is known only when a step needs it.
	Deferred bool
	// Sensitive says that the value must not be shown.
	Sensitive bool
	// Invalid says that the value, or what the plan says of it, has a fault. It is
	// among the diagnostics.
	Invalid bool

	// Allowed are the only values that the variable takes; nil for any.
	Allowed []any
}

// VarSource says who gives a variable its value.
type VarSource string

// The sources of values, those that win first.
const (
	// SourceInclude is a step of another plan that includes this one.
	SourceInclude VarSource = "include"
	SourceSet     VarSource = "set"
	SourceVarFile VarSource = "var_file"
	// SourceFleet is a fleet, whose clusters the plan runs on.
	SourceFleet     VarSource = "fleet"
	SourceEnv       VarSource = "env"
	SourceSecret    VarSource = "secret"
	SourceConfigMap VarSource = "config_map"
	SourceDefault   VarSource = "default"
)

// Shown is the value as it may be shown.
func (v Variable) Shown() any {
	if v.Sensitive {
		return redact.Mark
	}
	return v.Value
}

// Takes are the values that the variable takes, as --set has them; nil when they
// are too many to be listed, or must not be shown.
func (v Variable) Takes() []string {
	allowed := v.Allowed
	if len(allowed) == 0 && v.Type == VarBoolean {
		allowed = []any{true, false}
	}
	if v.Sensitive {
		return nil
	}
	var texts []string
	for _, a := range allowed {
		if s, ok := a.(string); ok {
			texts = append(texts, s)
		} else {
			texts = append(texts, Literal(a))
		}
	}
	return texts
}

// Pos is the position of Origin.
func (v Variable) Pos() document.Pos {
	if v.Origin.Text == nil {
		return document.Pos{}
	}
	return v.Origin.Text.ValuePos(v.Origin.At)
}

// Literal writes a value as one writes it on the command line.
func Literal(v any) string {
	if s, ok := v.(string); ok && s != "" && !strings.ContainsAny(s, " ,\"\n") {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil { // a value that was read from YAML is always written
		return "?"
	}
	return string(b)
}
