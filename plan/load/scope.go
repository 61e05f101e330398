package load

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/expr"
	"github.com/kplan-dev/kplan/plan/load/internal/value"
)

// scope is what the expressions of one step, or of other fields of the file, see:
// their types and their values.
type scope struct {
	file   *file
	env    *expr.Env
	values map[string]any
	// decl is the step whose expressions they are; nil for other fields.
	decl *stepDecl
	// answers are the inputs that are known; nil while the file is read.
	answers plan.Inputs
	// refs are what the expressions ask for, by the names that they use for it.
	// Whether they must have an answer is the value of names.
	refs  []reference
	names map[string]bool
}

// reference is a deferred value, and the path by which expressions name it.
type reference struct {
	path []string
	// input is zero for a group or an include as such, which may be empty.
	input plan.Input
	// must says that an expression has no value without the answer.
	must bool
}

// usage is what is to know of a name that an expression uses.
type usage struct {
	// bad says that the value has a fault that is reported.
	bad bool
	// refs are the deferred values that it means, what is what messages call it, and hint
	// says how it could be known earlier.
	refs       []reference
	what, hint string
}

// useError says that an expression may not use a name.
type useError struct{ message, hint string }

// newScope returns what expressions see that may use the named things; each is added for
// a step of a for_each.
func (f *file) newScope(names ...string) *scope {
	key := strings.Join(names, " ")
	if f.envs == nil {
		f.envs = map[string]*expr.Env{}
	}
	env := f.envs[key]
	if env == nil {
		env = expr.NewEnv(f.types(names), f.hasValue)
		f.envs[key] = env
	}
	return &scope{file: f, env: env, values: f.values}
}

func (f *file) types(names []string) map[string]expr.Type {
	types := map[string]expr.Type{}
	for _, name := range names {
		switch name {
		case "vars":
			types[name] = expr.NewObject("vars", f.varType).Type()
		case "plan":
			types[name] = expr.NewObject("plan", expr.Fields(map[string]expr.Type{"name": expr.String, "description": expr.String})).Type()
		case "clusters":
			types[name] = expr.NewObject("clusters", f.clusterType).Type()
		case "steps":
			types[name] = expr.NewObject("steps", f.stepType).Type()
		}
	}
	return types
}

// stepScope is what the expressions of one item of a for_each see.
func (f *file) stepScope(it *instance) *scope {
	e := it.decl
	s := f.newScope("vars", "plan", "clusters", "steps")
	s.decl = e
	if !e.grouped {
		return s
	}
	s.values = maps.Clone(f.values)
	s.values["each"] = map[string]any{"key": it.key, "value": it.value}
	if e.env == nil {
		types := f.types([]string{"vars", "plan", "clusters", "steps"})
		types["each"] = expr.NewObject("each", expr.Fields(map[string]expr.Type{"key": expr.String, "value": e.valueType()})).Type()
		e.env = expr.NewEnv(types, e.hasValue)
		if e.plain() {
			// Steps whose items are alike need not each have an environment.
			key := "each " + e.valueType().String()
			if f.envs[key] == nil {
				f.envs[key] = e.env
			}
			e.env = f.envs[key]
		}
	}
	s.env = e.env
	return s
}

// hasValue reports whether there is a value at a path: see expr.NewEnv.
func (f *file) hasValue(path []string) bool {
	if path[0] == "steps" {
		return f.hasInstance(path[1:])
	}
	return value.At(f.values, path) != nil
}

// hasInstance reports whether a path of names ends with the key of an item of a for_each.
func (f *file) hasInstance(path []string) bool {
	if len(path) < 2 || f.byName[path[0]] == nil {
		return false
	}
	e := f.byName[path[0]]
	return slices.ContainsFunc(e.instances, func(it *instance) bool {
		rest := path[1:]
		if e.grouped {
			if rest[0] != it.key {
				return false
			}
			if rest = rest[1:]; len(rest) == 0 {
				return true
			}
		}
		return it.child != nil && it.child.hasInstance(rest)
	})
}

func (e *stepDecl) hasValue(path []string) bool {
	if path[0] != "each" {
		return e.file.hasValue(path)
	}
	return len(path) > 2 && slices.ContainsFunc(e.instances, func(it *instance) bool { return value.At(it.value, path[2:]) != nil })
}

// plain reports whether no item has a name with a dash in it, which is the only thing
// that makes a difference to how expressions are read.
func (e *stepDecl) plain() bool {
	return !slices.ContainsFunc(e.instances, func(it *instance) bool { return hasDash(it.value) })
}

func hasDash(v any) bool {
	return value.Any(v, func(v any) bool {
		m, _ := v.(map[string]any)
		for k := range m {
			if strings.Contains(k, "-") {
				return true
			}
		}
		return false
	})
}

// valueType is the type that all items have.
func (e *stepDecl) valueType() expr.Type {
	for i, it := range e.instances {
		if i > 0 && typeOfValue(it.value).String() != typeOfValue(e.instances[0].value).String() {
			return expr.Any
		}
	}
	if len(e.instances) == 0 {
		return expr.Any
	}
	return typeOfValue(e.instances[0].value)
}

func typeOfValue(v any) expr.Type {
	switch v.(type) {
	case string:
		return expr.String
	case bool:
		return expr.Bool
	case int64:
		return expr.Int
	case float64:
		return expr.Double
	case []any:
		return expr.List
	case map[string]any:
		return expr.Map
	}
	return expr.Any
}

// use looks at a name that an expression uses.
func (s *scope) use(path []string) (usage, *useError) {
	if len(path) < 2 {
		return usage{}, nil
	}
	switch path[0] {
	case "vars":
		if s.file.values["vars"] == nil { // the fault of vars is reported
			return usage{bad: true}, nil
		}
		switch value.At(s.file.values["vars"], path[1:2]).(type) {
		case value.Invalid:
			return usage{bad: true}, nil
		case value.Deferred:
			return usage{
				refs: []reference{{path: path[:2], input: s.file.varInput(path[1])}}, what: "vars." + path[1],
				hint: "give it by --set, a --var-file or env",
			}, nil
		}
	case "steps":
		target := s.file.byName[path[1]]
		if target == nil || s.decl == nil {
			return usage{}, nil
		}
		if target == s.decl {
			return usage{}, &useError{"a step cannot read its own state or outputs", ""}
		}
		if !s.file.mayRead(s.decl, target) {
			return usage{}, &useError{
				fmt.Sprintf("the step %q reads steps.%s, but does not need it", s.decl.name, target.name),
				fmt.Sprintf("add %q to its needs", target.name),
			}
		}
		name := strings.Join(path, ".")
		asks, known := target.refs[name]
		if !known {
			asks = target.references(path[2:], path[:2])
			if target.refs == nil {
				target.refs = map[string][]reference{}
			}
			target.refs[name] = asks
		}
		return usage{refs: asks, what: name}, nil
	}
	return usage{}, nil
}

// mayRead reports whether a step starts only after another one has ended.
func (f *file) mayRead(e, target *stepDecl) bool {
	if e.last && !target.last {
		return true
	}
	if slices.ContainsFunc(e.needs, func(n plan.Need) bool { return n.Step == target.name }) {
		return true
	}
	return f.fileGraph().Follows(e.name, target.name)
}

// maxInputs bounds what all steps ask for together: each step of a group may ask for
// all steps of another.
const maxInputs = 200_000

// note takes note of the deferred values of a name. It is not ok when they are too many.
func (s *scope) note(sum *totals, name string, asks []reference, must bool) (ok bool) {
	if did, seen := s.names[name]; seen && (did || !must) {
		return true
	}
	if sum.inputs += len(asks); sum.inputs > maxInputs {
		return false
	}
	if s.names == nil {
		s.names = map[string]bool{}
	}
	s.names[name] = must
	for _, a := range asks {
		a.must = must && a.input.Output != "" && strings.HasPrefix(name+".", strings.Join(a.path, ".")+".")
		s.refs = append(s.refs, a)
	}
	return true
}

// references are the deferred values that a path below the step means: all of them where the
// path does not say.
func (e *stepDecl) references(rest, at []string) []reference {
	found := []reference{{path: slices.Clip(at)}}
	for _, it := range e.instances {
		below, here := rest, slices.Clip(at)
		if e.grouped {
			if len(rest) > 0 && rest[0] != it.key {
				continue
			}
			below, here = rest[min(1, len(rest)):], append(here, it.key)
		}
		if it.child == nil {
			found = append(found, it.leafReferences(below, here)...)
			continue
		}
		for _, x := range it.child.decls {
			if x.name != "" && (len(below) == 0 || below[0] == x.name) {
				found = append(found, x.references(below[min(1, len(below)):], append(slices.Clip(here), x.name))...)
			}
		}
	}
	return found
}

func (it *instance) leafReferences(below, here []string) []reference {
	name := it.flatName()
	found := []reference{{path: append(slices.Clip(here), "outputs")}}
	for _, field := range []string{"state", "changed"} {
		if len(below) == 0 || below[0] == field {
			found = append(found, reference{path: append(slices.Clip(here), field), input: plan.Input{Step: name}})
		}
	}
	for _, o := range slices.Sorted(maps.Keys(it.decl.outputs)) {
		if len(below) == 0 || below[0] == "outputs" && (len(below) == 1 || below[1] == o) {
			found = append(found, reference{path: append(slices.Clip(here), "outputs", o), input: plan.Input{Step: name, Output: o, Sensitive: it.decl.outputs[o]}})
		}
	}
	return found
}

// stepType returns the type of steps.NAME.
func (f *file) stepType(name string) (expr.Type, bool) {
	e := f.byName[name]
	if e == nil || name == "" {
		return expr.Type{}, false
	}
	if e.typ == nil {
		t := e.makeType()
		e.typ = &t
	}
	return *e.typ, true
}

func (e *stepDecl) makeType() expr.Type {
	id := "steps." + e.file.prefix + e.name
	var t expr.Type
	switch {
	case e.isInclude && e.grouped:
		return expr.Map // each item may be another plan
	case e.isInclude:
		if len(e.instances) == 0 || e.instances[0].child == nil {
			return expr.Any // its fault is reported
		}
		t = expr.NewObject(id, e.instances[0].child.stepType).Type()
	default:
		outputs := map[string]expr.Type{}
		for name := range e.outputs {
			outputs[name] = expr.Any
		}
		t = expr.NewObject(id, expr.Fields(map[string]expr.Type{
			"state": expr.OneOf(endStates...), "changed": expr.Bool, "outputs": expr.NewObject(id+" outputs", expr.Fields(outputs)).Type(),
		})).Type()
	}
	if e.grouped {
		t = expr.MapOf(t)
	}
	return t
}

// clusterType returns the type of clusters.NAME.
func (f *file) clusterType(name string) (expr.Type, bool) {
	if _, ok := f.clusters()[name]; !ok {
		return expr.Type{}, false
	}
	return expr.NewObject("clusters."+name, expr.Fields(map[string]expr.Type{
		"name": expr.String, "context": expr.String, "kubeconfig": expr.String, "namespace": expr.String,
	})).Type(), true
}

// clusters are what the file has of its clusters.
func (f *file) clusters() map[string]any {
	clusters, _ := f.tree["clusters"].(map[string]any)
	return clusters
}

// varTypes are the types of variables whose values are not known yet.
var varTypes = map[plan.VarType]expr.Type{
	plan.VarString: expr.String, plan.VarNumber: expr.Any, plan.VarInteger: expr.Int, plan.VarBoolean: expr.Bool,
	plan.VarList: expr.List, plan.VarMap: expr.Map, plan.VarAny: expr.Any,
}

// varInput is what a deferred variable asks for.
func (f *file) varInput(name string) plan.Input {
	in := f.vars.Input(name)
	if in.Key.Name != "" {
		in.Key.Cluster = f.clusterName(in.Key.Cluster)
	}
	return in
}
