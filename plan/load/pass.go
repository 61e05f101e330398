package load

import (
	"maps"
	"slices"

	"github.com/kplan-dev/kplan/internal/nearest"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/expr"
	"github.com/kplan-dev/kplan/plan/load/internal/vars"
)

// Nearly every line of this package speaks of these.
type (
	path  = document.Path
	fault = document.Fault
)

// session is one reading of a plan and of all that it includes, or of one step that
// is bound.
type session struct {
	faults *document.Faults
	near   nearest.Finder
	cost   *expr.Budget
	sum    totals
	// templates are the files whose expressions are evaluated, by absolute path.
	templates map[string]*template
	// includedFiles are the files of included plans, in the order of their reading.
	includedFiles []string
}

// totals count what is bounded in the plan and all that it includes.
type totals struct {
	steps, files, bytes, needs, inputs int
	// nodes and text are what expressions put into the plan.
	nodes, text int
	// evaluated is the size of the files whose expressions were.
	evaluated         int
	tooMany, tooLarge bool
}

func newSession(faults *document.Faults) *session {
	return &session{faults: faults, cost: expr.NewBudget()}
}

// pass goes through one file in a session, and reports what is wrong with it.
type pass struct {
	*session
	*file
	document.Reporter
}

// pass starts to go through a file.
func (s *session) pass(f *file) *pass {
	return &pass{s, f, document.Reporter{Faults: s.faults, Source: f.source}}
}

// load reads the file's plan and checks all but what takes the whole plan.
func (p *pass) load(src []byte, in Options, from *vars.Include) {
	p.engine = in.HelmEngine
	root, ok := p.read(src)
	if !ok {
		return
	}
	p.decrypt = in.decrypt
	p.readVars(root, in, from)
	p.expandHead(root)
	p.set(p.plan, root, nil)
	newValidator(p).head()
	p.declareSteps()
	newValidator(p).needs()
	p.readSteps(in)
	if p.onDisk {
		fileFinder{p}.all()
	}
}

// expandHead resolves the expressions of all fields but the steps: first of those
// that others may read.
func (p *pass) expandHead(root map[string]any) {
	p.secretAt = map[string]bool{}
	expand := func(field string, names ...string) {
		if v, has := root[field]; has {
			x := expander{pass: p, scope: p.newScope(names...), static: field, secretAt: p.secretAt}
			root[field] = x.expand(v, path{field})
		}
	}
	expand("metadata", "vars")
	known, _ := root["metadata"].(map[string]any)
	p.values["plan"] = map[string]any{"name": textField(known, "name"), "description": textField(known, "description")}
	expand("clusters", "vars", "plan")
	p.values["clusters"] = p.clusterValues()
	for _, k := range slices.Sorted(maps.Keys(root)) {
		if !slices.Contains([]string{"metadata", "vars", "clusters", "steps", "finally"}, k) {
			expand(k, "vars", "plan", "clusters")
		}
	}
}

func textField(m map[string]any, name string) string {
	s, _ := m[name].(string)
	return s
}

// readVars reads the file's variables, unless nothing can be understood of them.
func (p *pass) readVars(root map[string]any, in Options, from *vars.Include) {
	p.values = map[string]any{}
	declared, ok := root["vars"].(map[string]any)
	if root["vars"] != nil && !ok {
		return
	}
	p.vars = vars.Read(declared, vars.Config{
		Reporter: p.Reporter, Near: &p.near, Set: in.Set, VarFiles: in.VarFiles, Fleet: in.Fleet, Env: in.Env, Unknown: in.Unknown, Unset: in.Unset, Decrypt: in.decrypt,
		Include: from, HasCluster: p.hasCluster,
		Unescape: func(v any, at path) any {
			x := expander{pass: p}
			return x.expand(v, at)
		},
	})
	p.values["vars"] = p.vars.Values()
}

// read returns the values of the file.
func (p *pass) read(src []byte) (root map[string]any, ok bool) {
	s, tree, ok := document.Read(p.plan.File, src, document.Options{Order: p.order, Keys: document.PlanKeys}, p.faults)
	p.Source, p.source = s, s
	if !ok {
		return nil, false
	}
	root, ok = tree.(map[string]any)
	if !ok {
		p.Report(fault{Code: document.CodeWrongType, Hint: "start with apiVersion: " + plan.APIVersion}, "expected a plan, which is a mapping, got %s", document.Describe(tree))
	}
	if root["kind"] == fleetKind {
		p.Report(fault{Code: document.CodeUnknownValue, At: path{"kind"}, Hint: "use a command for fleets: kplan fleet validate, kplan fleet run"}, "this is a fleet, but a plan is wanted")
		return nil, false
	}
	p.tree = root
	return root, ok
}

// fleetKind is the kind of files that name a plan, and clusters that it runs on.
const fleetKind = "Fleet"
