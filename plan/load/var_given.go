package load

import (
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
)

// given is a value for a variable, and where it comes from.
type given struct {
	source plan.VarSource
	value  any
	// text is what the value is made of when it comes as mere text.
	text   string
	isText bool
	// origin is where it stands in a file; zero for --set.
	origin document.Origin
	// secret says that it is made of a sensitive value.
	secret bool
}

// quotable tells whether a message may show the value. Var files and the
// environment often hold secrets, also in variables that are not declared so.
func (g given) quotable() bool { return g.source != plan.SourceVarFile && g.source != plan.SourceEnv }

// variable is the declaration d with its value, as others see it.
func (d *declaration) variable() plan.Variable {
	v := plan.Variable{
		Name: d.name, Description: d.description, Type: d.typ, Source: d.from.source,
		Sensitive: d.sensitive, Invalid: d.broken, Allowed: d.allowed,
	}
	switch d.value.(type) {
	case deferred:
		v.Deferred = true
	case invalid:
	default:
		v.Value = d.value
	}
	switch d.from.source {
	case plan.SourceDefault, plan.SourceVarFile, plan.SourceInclude:
		v.Origin = d.from.origin
	case plan.SourceEnv:
		v.Env = d.env
	case plan.SourceSecret, plan.SourceConfigMap:
		v.Ref = d.ref
	case plan.SourceSet:
	}
	return v
}
