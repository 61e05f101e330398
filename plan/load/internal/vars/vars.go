// Package vars gives the variables that a plan file declares their values: of those
// who give one, the one that wins.
//
// It does not know what reads the variables.
package vars

import (
	"maps"
	"slices"

	"github.com/kplan-dev/kplan/internal/nearest"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load/internal/value"
)

// Config says where values come from, and who hears of faults.
type Config struct {
	// Reporter hears of faults of the file.
	document.Reporter
	Near *nearest.Finder
	// Set, VarFiles, Fleet, Env, Unknown and Unset are those of load.Options.
	Set, VarFiles []string
	Fleet         map[string]any
	Env           func(name string) (value string, ok bool)
	Unknown       bool
	Unset         bool
	// Decrypt returns what an encrypted file holds, and which values of it were encrypted;
	// other files as they are. It may be nil.
	Decrypt func(src []byte) (text []byte, secrets []any, err error)
	// Include is the step that includes the file; nil for the plan itself.
	Include *Include
	// HasCluster reports a cluster that the file does not have as a fault.
	HasCluster func(name string, at document.Path) bool
	// Unescape resolves the only expression that may stand in a declaration: $${{.
	Unescape func(v any, at document.Path) any
}

// Include is a step that includes a file.
type Include struct {
	// Reporter hears of faults of the step, whose field include stands at At.
	document.Reporter
	At document.Path
	// Step is the step's name, and Plan the path that it gives.
	Step, Plan string
	// Values are what it gives to variables.
	Values map[string]Given
}

// Given is a value for a variable, and where it comes from.
type Given struct {
	Source plan.VarSource
	Value  any
	// text is what the value is made of when it comes as mere text.
	text   string
	isText bool
	// Origin is where it stands in a file; zero for --set.
	Origin document.Origin
	// Secret says that it is made of a sensitive value.
	Secret bool
}

// quotable reports whether a message may show the value. Var files and the
// environment often hold secrets, also in variables that are not declared so.
func (g Given) quotable() bool { return g.Source != plan.SourceVarFile && g.Source != plan.SourceEnv }

// Table is the variables of a file. A nil table has none.
type Table struct {
	byName map[string]*declaration
	sorted []*declaration
}

// reader fills a table.
type reader struct {
	Config
	*Table
}

// Read returns the variables that a file declares. A value whose fault is reported
// is value.Invalid, one that is known only when a step needs it is value.Deferred.
func Read(declared map[string]any, c Config) *Table {
	r := &reader{c, &Table{byName: make(map[string]*declaration, len(declared))}}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		r.declare(name, declared[name])
	}
	r.giveEnv()
	r.giveFleet(r.Fleet)
	for i, file := range r.VarFiles {
		r.giveFile(file, i+1)
	}
	r.giveSet(r.Set)
	if r.Include != nil {
		r.giveIncluded(r.Include.Values)
	}
	for _, d := range r.sorted {
		r.settle(d)
	}
	return r.Table
}

// Values returns the value of each variable.
func (t *Table) Values() map[string]any {
	values := make(map[string]any, len(t.sorted))
	for _, d := range t.sorted {
		values[d.name] = d.value
	}
	return values
}

// Names returns the names of the variables, sorted.
func (t *Table) Names() []string {
	if t == nil {
		return nil
	}
	names := make([]string, len(t.sorted))
	for i, d := range t.sorted {
		names[i] = d.name
	}
	return names
}

// Type returns the type of a variable.
func (t *Table) Type(name string) plan.VarType { return t.byName[name].typ }

// IsSensitive reports whether the value of a variable must not be shown.
func (t *Table) IsSensitive(name string) bool {
	return t != nil && t.byName[name] != nil && t.byName[name].sensitive
}

// Hides reports whether a path is in a value of a sensitive variable.
func (t *Table) Hides(at document.Path) bool {
	return len(at) > 2 && at[0] == "vars" && slices.Contains(secretFields, at[2].(string)) && t.IsSensitive(at[1].(string))
}

// Input returns what a deferred variable asks for, in a cluster of the file.
func (t *Table) Input(name string) plan.Input {
	d := t.byName[name]
	if d.ref == nil { // it has no value, and nothing is run: see load.Options
		return plan.Input{From: plan.FromSecret, Sensitive: true}
	}
	in := plan.Input{From: plan.FromSecret, Key: *d.ref, Sensitive: d.sensitive, Optional: d.hasDefault}
	if d.from.Source == plan.SourceConfigMap {
		in.From = plan.FromConfigMap
	}
	return in
}

// Answer returns the value of a deferred variable: what its key has, else its default.
func (t *Table) Answer(r document.Reporter, near *nearest.Finder, name string, answer any) any {
	d := t.byName[name]
	text, isText := answer.(string)
	if !isText {
		if !d.hasDefault {
			r.ReportField(document.Fault{At: d.at}, "the variable %q has no value: the cluster does not have %s", name, t.Input(name))
			return value.Invalid{}
		}
		return d.def
	}
	if d.sensitive {
		r.Secrets.Add(text)
	}
	v, err := judge(d, Given{Source: d.from.Source, text: text, isText: true}, near)
	if err != nil {
		r.ReportField(document.Fault{At: d.at, Hint: err.hint}, "the value of the variable %q: %s", name, err.message)
		return value.Invalid{}
	}
	return v
}

// Variables returns the variables with their values, as others see them.
func (t *Table) Variables() []plan.Variable {
	if t == nil {
		return nil
	}
	list := make([]plan.Variable, len(t.sorted))
	for i, d := range t.sorted {
		list[i] = d.variable()
	}
	return list
}

// variable is the declaration d with its value, as others see it.
func (d *declaration) variable() plan.Variable {
	v := plan.Variable{
		Name: d.name, Description: d.description, Type: d.typ, Source: d.from.Source,
		Sensitive: d.sensitive, Invalid: d.broken, Allowed: d.allowed,
	}
	switch d.value.(type) {
	case value.Deferred:
		v.Deferred = true
	case value.Invalid:
	default:
		v.Value = d.value
	}
	switch d.from.Source {
	case plan.SourceDefault, plan.SourceVarFile, plan.SourceInclude:
		v.Origin = d.from.Origin
	case plan.SourceEnv:
		v.Env = d.env
	case plan.SourceSecret, plan.SourceConfigMap:
		v.Ref = d.ref
	case plan.SourceSet, plan.SourceFleet:
	}
	return v
}
