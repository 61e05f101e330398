package plan

import (
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
	// Pos is where the value stands, for a default, a var file and an include.
	Pos document.Pos
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

	allowed []any
}

// VarSource says who gives a variable its value.
type VarSource string

// The sources of values, those that win first.
const (
	// SourceInclude is a step of another plan that includes this one.
	SourceInclude   VarSource = "include"
	SourceSet       VarSource = "set"
	SourceVarFile   VarSource = "var_file"
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
	allowed := v.allowed
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
			texts = append(texts, literal(a))
		}
	}
	return texts
}

// Variables are those that the plan declares, sorted by name.
func (p *Plan) Variables() []Variable {
	list := make([]Variable, len(p.vars))
	for i, v := range p.vars {
		list[i] = v.variable()
	}
	return list
}

// Sensitive is what must not be shown of a plan that was read: whoever learns the
// value of a sensitive variable or output later adds it.
func (p *Plan) Sensitive() *redact.Set { return p.secrets }

// deferred stands for the value of a variable that is known only when a step needs it.
type deferred struct{}

// given is a value for a variable, and where it comes from.
type given struct {
	source VarSource
	value  any
	// text is what the value is made of when it comes as mere text.
	text   string
	isText bool
	// src and at are where it stands in a file; src is nil for --set.
	src *document.Source
	at  document.Path
	// secret says that it is made of a sensitive value.
	secret bool
}

// quotable tells whether a message may show the value. Var files and the
// environment often hold secrets, also in variables that are not declared so.
func (g given) quotable() bool { return g.source != SourceVarFile && g.source != SourceEnv }

// variable is the declaration d with its value, as others see it.
func (d *declaration) variable() Variable {
	v := Variable{
		Name: d.name, Description: d.description, Type: d.typ, Source: d.from.source,
		Sensitive: d.sensitive, Invalid: d.broken, allowed: d.allowed,
	}
	switch d.value.(type) {
	case deferred:
		v.Deferred = true
	case invalid:
	default:
		v.Value = d.value
	}
	switch d.from.source {
	case SourceDefault, SourceVarFile, SourceInclude:
		v.Pos = d.from.src.ValuePos(d.from.at)
	case SourceEnv:
		v.Env = d.env
	case SourceSecret, SourceConfigMap:
		v.Ref = d.ref
	case SourceSet:
	}
	return v
}
