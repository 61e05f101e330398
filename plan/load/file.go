package load

import (
	"reflect"
	"slices"
	"sync"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/expr"
	"github.com/kplan-dev/kplan/plan/load/internal/value"
	"github.com/kplan-dev/kplan/plan/load/internal/vars"
)

// file is one plan file: its values, its steps, and what expressions see of it.
type file struct {
	// plan is what the file declares; of the file that was asked for it becomes the whole plan.
	plan   *plan.Plan
	source *document.Source
	// onDisk says that paths are looked up.
	onDisk bool
	// decrypt opens files that are encrypted, see Options.Decrypter.
	decrypt func(src []byte) (text []byte, secrets []any, err error)
	// engine is that of all helm steps; empty for what the plan says.
	engine plan.HelmEngine
	// tree are the values of the file, with the expressions of all but steps resolved.
	tree map[string]any
	// secretAt are the paths outside of steps where a sensitive value stands; see expander.
	secretAt map[string]bool
	// vars are the file's variables; nil when it has none that can be understood.
	vars *vars.Table
	// order sorts the file's faults among those of others.
	order int
	// parent is the plan that includes this one, by an instance of a step; prefix is
	// what the names of this one's steps start with in the whole plan.
	parent         *file
	parentInstance *instance
	prefix         string
	// skip says that none of the steps runs, for the when of the include is false.
	skip bool

	decls  []*stepDecl
	byName map[string]*stepDecl
	// local is the graph of the file's own steps; see fileGraph.
	local *plan.Graph
	// envs and values are what expressions see: see newScope.
	envs   map[string]*expr.Env
	values map[string]any
	// whole is the plan that the file is part of, once all is read.
	whole *whole
	// binding is held while a step is bound: the scopes of a file share what they find.
	binding sync.Mutex
}

// clusterValues are what expressions see of the clusters. A cluster that an include
// maps to one of the including plan is as that one declares it.
func (f *file) clusterValues() map[string]any {
	values := map[string]any{}
	for name, v := range f.clusters() {
		m, _ := v.(map[string]any)
		if outer, ok := f.mapped(name); ok {
			m, _ = f.parent.clusters()[outer].(map[string]any)
		}
		values[name] = map[string]any{
			"name": name, "context": textField(m, "context"), "kubeconfig": textField(m, "kubeconfig"), "namespace": textField(m, "namespace"),
		}
	}
	return values
}

// mapped returns the cluster of the including plan that one of this plan's is.
func (f *file) mapped(name string) (string, bool) {
	if f.parent == nil {
		return "", false
	}
	outer, ok := f.parentInstance.step.Include.Clusters[name]
	return outer, ok && outer != ""
}

// fileGraph is the graph of the file's own steps, where a step with for_each and an
// include are one each.
func (f *file) fileGraph() *plan.Graph {
	if f.local == nil {
		p := plan.Plan{Steps: make([]plan.Step, 0, len(f.decls))}
		for _, e := range f.decls {
			p.Steps = append(p.Steps, plan.Step{Name: e.name, Needs: f.localNeeds(e)})
		}
		f.local = p.Graph()
	}
	return f.local
}

// localNeeds are the needs of a step in terms of the file's own steps: who needs
// one step of an include needs the include.
func (f *file) localNeeds(e *stepDecl) []plan.Need {
	needs := slices.Clone(e.needs)
	for i, n := range needs {
		if target := f.target(n.Step); target != nil {
			needs[i].Step = target.name
		}
	}
	return needs
}

// target is the file's step that a need means, or one of whose steps it means.
func (f *file) target(name string) *stepDecl {
	if e := f.byName[name]; e != nil {
		return e
	}
	for i, r := range name {
		if r == '/' || r == '[' {
			if e := f.byName[name[:i]]; e != nil {
				return e
			}
		}
	}
	return nil
}

var stepsType = reflect.TypeFor[[]plan.Step]()

// varType is the type of a variable.
func (f *file) varType(name string) (expr.Type, bool) {
	values, known := f.values["vars"].(map[string]any)
	if !known {
		return expr.Any, true // the fault of vars is reported
	}
	v, ok := values[name]
	if !ok {
		return expr.Type{}, false
	}
	if value.IsUnsaid(v) {
		return varTypes[f.vars.Type(name)], true
	}
	return typeOfValue(v), true
}
