package load

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/expr"
	"github.com/kplan-dev/kplan/plan/load/internal/names"
	"github.com/kplan-dev/kplan/plan/load/internal/value"
)

// stepDecl is a step as the file has it: one step of the plan, or one for each item.
type stepDecl struct {
	file *file
	at   path
	// raw are its fields as the file has them; name, needs and for_each resolved.
	raw  map[string]any
	name string
	// last says that it is one of the plan's finally.
	last  bool
	needs []plan.Need
	// grouped says that it has a for_each, isInclude that it is an include.
	grouped, isInclude bool
	parallel           int
	// outputs are the names of its outputs, and whether they are sensitive.
	outputs   map[string]bool
	instances []*instance

	// secretAt are the paths of for_each where a sensitive value stands; see expander.
	secretAt map[string]bool

	typ *expr.Type // see stepType
	// refs are the deferred values of this step, by the name that expressions have for
	// them.
	refs map[string][]reference
	env  *expr.Env // see stepScope
}

// instance is one of the steps that a stepDecl becomes.
type instance struct {
	decl *stepDecl
	// key and value are each.key and each.value.
	key   string
	value any
	// tree are the fields with their expressions resolved.
	tree map[string]any
	step plan.Step
	// refs are the deferred values that the fields want to know.
	refs []reference
	// skip says that its when is false.
	skip bool
	// secretAt are the paths where a sensitive value stands; see expander.
	secretAt map[string]bool
	// child is the plan of an include; nil for other steps, and for one with a fault.
	child *file
}

// Bounds of a plan once for_each and include are put in.
const (
	maxSteps    = 20_000
	maxKey      = 100
	maxParallel = 1000
)

// headFields are resolved before any other field of a step, staticFields with the
// others, but must be known when the file is read.
var (
	headFields   = []string{"name", "needs", "for_each"}
	staticFields = []string{"include", "cluster", "concurrency_group", "tags", "timeout", "retry", "webhooks"}
)

// declareSteps reads what must be known of all steps before the expressions of one
// can be: their names, needs and outputs, and for which items there is one.
func (p *pass) declareSteps() {
	p.byName = map[string]*stepDecl{}
	for _, field := range []string{"steps", "finally"} {
		list, _ := p.tree[field].([]any)
		for i, v := range list {
			at := path{field, i}
			raw, ok := v.(map[string]any)
			if !ok {
				p.set(new(plan.Step), v, at) // says what is wrong
				continue
			}
			p.decls = append(p.decls, p.declareStep(raw, at, field == "finally"))
		}
	}
	for _, e := range p.decls {
		if e.name == "" {
			continue
		}
		if first, dup := p.byName[e.name]; dup {
			p.Report(fault{Code: document.CodeDuplicate, At: e.at.Key("name"), Hint: "the first one is on line " + strconv.Itoa(p.Source.ValuePos(first.at.Key("name")).Line)}, "there are two steps with the name %q", e.name)
			continue
		}
		p.byName[e.name] = e
	}
}

func (p *pass) declareStep(raw map[string]any, at path, last bool) *stepDecl {
	e := &stepDecl{file: p.file, at: at, raw: raw, last: last, secretAt: map[string]bool{}}
	s := p.newScope("vars", "plan", "clusters")
	for _, k := range headFields {
		if v, has := raw[k]; has {
			x := expander{pass: p, scope: s, static: k, secretAt: e.secretAt}
			raw[k] = x.expand(v, at.Key(k))
		}
	}
	e.name, _ = raw["name"].(string)
	if raw["needs"] != nil {
		quiet := newSession(&document.Faults{}) // its faults are found again when the step is decoded
		quiet.pass(p.file).set(&e.needs, raw["needs"], at.Key("needs"))
	}
	_, e.isInclude = raw["include"]
	outputs, _ := raw["outputs"].(map[string]any)
	if len(outputs) > 0 {
		e.outputs = make(map[string]bool, len(outputs))
	}
	for name, v := range outputs {
		o, _ := v.(map[string]any)
		resource, _ := o["resource"].(string)
		e.outputs[name] = isSecret(resource)
		if said, ok := o["sensitive"].(bool); ok {
			e.outputs[name] = said
		}
	}
	p.readInstances(e)
	return e
}

// isSecret reports whether TYPE/NAME is that of a Secret.
func isSecret(resource string) bool {
	kind, _, _ := strings.Cut(strings.ToLower(resource), "/")
	kind, _, _ = strings.Cut(kind, ".")
	return kind == "secret" || kind == "secrets"
}

// readInstances finds the items of for_each; a step without has one, which is nothing.
func (p *pass) readInstances(e *stepDecl) {
	v, has := e.raw["for_each"]
	if !has {
		e.instances = []*instance{{decl: e}}
		return
	}
	e.grouped = true
	at := e.at.Key("for_each")
	if isLongForEach(v) {
		long, _ := v.(map[string]any)
		n, given := long["parallel"].(int64)
		if given && (n < 1 || n > maxParallel) {
			p.Report(fault{At: at.Key("parallel"), Hint: "it is how many of the steps run at once"}, "parallel is %d, but must be from 1 to %d", n, maxParallel)
		} else {
			e.parallel = int(n)
		}
		if given && e.isInclude {
			p.ReportField(fault{At: at.Key("parallel"), Hint: "remove it"}, "parallel is of no use for an include")
		}
		v, at = long["in"], at.Key("in")
	}
	if e.secretKeys(v, at) {
		p.addSecretKeys(at)
		return
	}
	seen := map[string]bool{}
	switch in := v.(type) {
	case value.Invalid:
	case []any:
		for i, x := range in {
			if e.secretKeys(x, at.Index(i)) {
				p.addSecretKeys(at.Index(i))
				return
			}
			if !p.addInstance(e, listKey(i, x), x, at.Index(i), seen) {
				return
			}
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(in)) {
			if !p.addInstance(e, k, in[k], at.Key(k), seen) {
				return
			}
		}
	case nil:
		p.ReportField(fault{Code: document.CodeMissingField, At: at, Hint: "give a list or a map"}, "for_each is empty")
	default:
		p.Report(fault{Code: document.CodeWrongType, At: at, Hint: "give a list or a map"}, "for_each goes over a list or a map, not over %s", p.describeAt(in, at))
	}
}

func (p *pass) addSecretKeys(at path) {
	p.Report(fault{At: at, Hint: "use a map: its keys are shown, and its values are not"}, "the names of the steps would show a sensitive value")
}

// listKey is the key of an item of a list: the item itself when it is a scalar,
// else its index.
func listKey(i int, v any) string {
	switch v.(type) {
	case string, bool, int64, float64:
		return fmt.Sprint(v)
	}
	return strconv.Itoa(i)
}

// addInstance adds the step of an item; it is not ok when there are too many.
func (p *pass) addInstance(e *stepDecl, key string, v any, at path, seen map[string]bool) (ok bool) {
	if p.sum.steps > maxSteps {
		return false
	}
	switch {
	case value.IsUnsaid(v):
		return true
	case !names.IsTag(key, maxKey):
		p.Report(fault{At: at, Hint: "use letters, digits, -, _ and ., or a map with such keys"}, "%s cannot be the key of a step", p.quote(key, at))
		return true
	case seen[key]:
		p.Report(fault{Code: document.CodeDuplicate, At: at, Hint: "each item must have a key of its own; a map gives them"}, "two items have the same key")
		return true
	}
	if p.sum.steps++; p.sum.steps > maxSteps {
		p.ReportField(fault{At: e.at.Key("for_each")}, "the plan has more than %d steps once for_each and include are put in", maxSteps)
		return false
	}
	seen[key] = true
	e.instances = append(e.instances, &instance{decl: e, key: key, value: v})
	return true
}

// readSteps resolves, decodes and checks the steps.
func (p *pass) readSteps(in Options) {
	for _, include := range []bool{true, false} { // others may read what included plans have
		for _, e := range p.decls {
			if e.isInclude != include {
				continue
			}
			for _, it := range e.instances {
				p.readStep(it, in)
			}
			newValidator(p).checkGroup(e)
		}
	}
}

func (p *pass) readStep(it *instance, in Options) {
	s := p.stepScope(it)
	p.expandInstance(it, s)
	p.decodeStep(it)
	p.evaluate(it, s)
	it.refs = s.refs
	if it.decl.isInclude && it.step.Include != nil {
		it.child = p.include(it, in)
	}
}

// expandInstance resolves the expressions of one step.
func (p *pass) expandInstance(it *instance, s *scope) {
	raw, at := it.decl.raw, it.decl.at
	tree := make(map[string]any, len(raw))
	it.secretAt = map[string]bool{}
	if when, has := raw["when"]; has {
		x := expander{pass: p, scope: s, skip: p.skip, secretAt: it.secretAt}
		tree["when"] = x.expand(when, at.Key("when"))
		it.skip = tree["when"] == false
	}
	for _, k := range slices.Sorted(maps.Keys(raw)) {
		switch {
		case k == "when":
		case slices.Contains(headFields, k):
			tree[k] = raw[k]
		default:
			x := expander{pass: p, scope: s, skip: p.skip || it.skip, secretAt: it.secretAt}
			if slices.Contains(staticFields, k) {
				x.static = k
			}
			tree[k] = x.expand(raw[k], at.Key(k))
		}
	}
	it.tree = tree
}

// decodeStep fills a step from its fields and checks it.
func (p *pass) decodeStep(it *instance) {
	p.set(&it.step, it.tree, it.decl.at)
	newStepValidator(p, it).step(it.step)
	it.step.ForEach = nil
}

// flatName is the name of one of the steps in the whole plan.
func (it *instance) flatName() string {
	name := it.decl.file.prefix + it.decl.name
	if it.decl.grouped {
		return name + "[" + it.key + "]"
	}
	return name
}
