package load

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/expr"
	"github.com/kplan-dev/kplan/plan/internal/nearest"
)

// file is what a checker knows of its file beyond the values: the steps, and what
// their expressions see.
type file struct {
	*shared
	in Options
	// order sorts the file's faults among those of others.
	order int
	// binding is held while a step is bound: steps of a file share what follows.
	binding *sync.Mutex
	text    *document.Text
	// parent is the plan that includes this one, by an item of a step; prefix is what
	// the names of this one's steps start with in the whole plan.
	parent         *checker
	parentDecl     *stepDecl
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
	// step and stepAt are the step that is being checked, with its expressions
	// resolved, and where it stands.
	step   map[string]any
	stepAt document.Path
}

// shared is what the checkers of a plan and of those that it includes share.
type shared struct {
	near   *nearest.Finder
	cost   *expr.Budget
	growth growth
	sum    totals
	// includedFiles are the files of included plans, in the order of their reading.
	includedFiles []string
	// onDisk says that paths are looked up.
	onDisk bool
}

// load reads the file's plan and checks all but what takes the whole plan.
func (c *checker) load(src []byte, in Options, included map[string]given) {
	c.in = in
	root, ok := c.read(src)
	if !ok {
		return
	}
	vars := c.readVars(root, in, included)
	c.values = map[string]any{}
	if vars != nil {
		c.values["vars"] = vars
	}
	c.expandHead(root)
	c.decode(root)
	c.checkHead()
	c.declareSteps()
	c.checkNeeds()
	c.readSteps()
	if c.onDisk {
		c.checkFiles()
	}
}

// expandHead resolves the expressions of all fields but the steps: first of those
// that others may read.
func (c *checker) expandHead(root map[string]any) {
	metadata := expander{checker: c, scope: c.newScope("vars"), static: "metadata"}
	if v, has := root["metadata"]; has {
		root["metadata"] = metadata.expand(v, document.Path{"metadata"})
	}
	known, _ := root["metadata"].(map[string]any)
	c.values["plan"] = map[string]any{"name": textField(known, "name"), "description": textField(known, "description")}
	if v, has := root["clusters"]; has {
		clusters := expander{checker: c, scope: c.newScope("vars", "plan"), static: "clusters"}
		root["clusters"] = clusters.expand(v, document.Path{"clusters"})
	}
	c.values["clusters"] = c.clusterValues()
	for _, k := range slices.Sorted(maps.Keys(root)) {
		if !slices.Contains([]string{"metadata", "vars", "clusters", "steps", "finally"}, k) {
			x := expander{checker: c, scope: c.newScope("vars", "plan", "clusters"), static: k}
			root[k] = x.expand(root[k], document.Path{k})
		}
	}
}

func textField(m map[string]any, name string) string {
	s, _ := m[name].(string)
	return s
}

// clusterValues are what expressions see of the clusters. A cluster that an include
// maps to one of the including plan is as that one declares it.
func (c *checker) clusterValues() map[string]any {
	values := map[string]any{}
	for name, v := range c.clusters() {
		m, _ := v.(map[string]any)
		if outer, ok := c.mapped(name); ok {
			m, _ = c.parent.clusters()[outer].(map[string]any)
		}
		values[name] = map[string]any{
			"name": name, "context": textField(m, "context"), "kubeconfig": textField(m, "kubeconfig"), "namespace": textField(m, "namespace"),
		}
	}
	return values
}

// mapped gives the cluster of the including plan that one of this plan's is.
func (c *checker) mapped(name string) (string, bool) {
	if c.parent == nil {
		return "", false
	}
	outer, ok := c.parentInstance.step.Include.Clusters[name]
	return outer, ok && outer != ""
}

// fileGraph is the graph of the file's own steps, where a step with for_each and an
// include are one each.
func (c *checker) fileGraph() *plan.Graph {
	if c.local == nil {
		p := plan.Plan{Steps: make([]plan.Step, 0, len(c.decls))}
		for _, e := range c.decls {
			p.Steps = append(p.Steps, plan.Step{Name: e.name, Needs: c.localNeeds(e)})
		}
		c.local = p.Graph()
	}
	return c.local
}

// localNeeds are the needs of a step in terms of the file's own steps: who needs
// one step of an include needs the include.
func (c *checker) localNeeds(e *stepDecl) []plan.Need {
	needs := slices.Clone(e.needs)
	for i, n := range needs {
		if target := c.target(n.Step); target != nil {
			needs[i].Step = target.name
		}
	}
	return needs
}

// target is the file's step that a need means, or one of whose steps it means.
func (c *checker) target(name string) *stepDecl {
	if e := c.byName[name]; e != nil {
		return e
	}
	for i, r := range name {
		if r == '/' || r == '[' {
			if e := c.byName[name[:i]]; e != nil {
				return e
			}
		}
	}
	return nil
}

var (
	stepType  = reflect.TypeFor[plan.Step]()
	stepsType = reflect.TypeFor[[]plan.Step]()
)

// root is the checker of the whole plan.
func (c *checker) root() *checker {
	for c.parent != nil {
		c = c.parent
	}
	return c
}

// varType is the type of a variable.
func (c *checker) varType(name string) (expr.Type, bool) {
	vars, known := c.values["vars"].(map[string]any)
	if !known {
		return expr.Any, true // the fault of vars is reported
	}
	v, ok := vars[name]
	if !ok {
		return expr.Type{}, false
	}
	if isUnsaid(v) {
		return typeOfVar(c.vars[name]), true
	}
	return typeOfValue(v), true
}
