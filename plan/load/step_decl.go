package load

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/expr"
)

// stepDecl is a step as the file has it: one step of the plan, or one for each item.
type stepDecl struct {
	c  *checker
	at document.Path
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
	child *checker
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
	staticFields = []string{"include", "cluster", "tags", "timeout", "retry", "webhooks"}
)

// declareSteps reads what must be known of all steps before the expressions of one
// can be: their names, needs and outputs, and for which items there is one.
func (c *checker) declareSteps() {
	c.byName = map[string]*stepDecl{}
	for _, field := range []string{"steps", "finally"} {
		list, _ := c.tree[field].([]any)
		for i, v := range list {
			at := document.Path{field, i}
			raw, ok := v.(map[string]any)
			if !ok {
				c.set(reflect.New(stepType).Elem(), v, at) // says what is wrong
				continue
			}
			c.decls = append(c.decls, c.declareStep(raw, at, field == "finally"))
		}
	}
	for _, e := range c.decls {
		if e.name == "" {
			continue
		}
		if first, dup := c.byName[e.name]; dup {
			c.Report(document.Fault{Code: document.CodeDuplicate, At: e.at.Key("name"), Hint: "the first one is on line " + strconv.Itoa(c.Source.ValuePos(first.at.Key("name")).Line)}, "there are two steps with the name %q", e.name)
			continue
		}
		c.byName[e.name] = e
	}
}

func (c *checker) declareStep(raw map[string]any, at document.Path, last bool) *stepDecl {
	e := &stepDecl{c: c, at: at, raw: raw, last: last}
	x := expander{checker: c, scope: c.newScope("vars", "plan", "clusters")}
	for _, k := range headFields {
		if v, has := raw[k]; has {
			x.static = k
			raw[k] = x.expand(v, at.Key(k))
		}
	}
	e.secretAt = x.secretAt
	e.name, _ = raw["name"].(string)
	if raw["needs"] != nil {
		quiet := *c // its faults are found again when the step is decoded
		quiet.Faults = &document.Faults{}
		quiet.set(reflect.ValueOf(&e.needs).Elem(), raw["needs"], at.Key("needs"))
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
	e.readInstances()
	return e
}

// isSecret tells whether TYPE/NAME is that of a Secret.
func isSecret(resource string) bool {
	kind, _, _ := strings.Cut(strings.ToLower(resource), "/")
	kind, _, _ = strings.Cut(kind, ".")
	return kind == "secret" || kind == "secrets"
}

var instanceKey = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$`)

// readInstances finds the items of for_each; a step without has one, which is nothing.
func (e *stepDecl) readInstances() {
	v, has := e.raw["for_each"]
	if !has {
		e.instances = []*instance{{}}
		return
	}
	e.grouped = true
	at := e.at.Key("for_each")
	if isLongForEach(v) {
		long, _ := v.(map[string]any)
		n, given := long["parallel"].(int64)
		if given && (n < 1 || n > maxParallel) {
			e.c.Report(document.Fault{At: at.Key("parallel"), Hint: "it is how many of the steps run at once"}, "parallel is %d, but must be from 1 to %d", n, maxParallel)
		} else {
			e.parallel = int(n)
		}
		if given && e.isInclude {
			e.c.ReportField(document.Fault{At: at.Key("parallel"), Hint: "remove it"}, "parallel is of no use for an include")
		}
		v, at = long["in"], at.Key("in")
	}
	if e.secretKeys(v, at) {
		e.addSecretKeys(at)
		return
	}
	seen := map[string]bool{}
	switch in := v.(type) {
	case invalid:
	case []any:
		for i, x := range in {
			if e.secretKeys(x, at.Index(i)) {
				e.addSecretKeys(at.Index(i))
				return
			}
			if !e.addInstance(listKey(i, x), x, at.Index(i), seen) {
				return
			}
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(in)) {
			if !e.addInstance(k, in[k], at.Key(k), seen) {
				return
			}
		}
	case nil:
		e.c.ReportField(document.Fault{Code: document.CodeMissingField, At: at, Hint: "give a list or a map"}, "for_each is empty")
	default:
		e.c.Report(document.Fault{Code: document.CodeWrongType, At: at, Hint: "give a list or a map"}, "for_each goes over a list or a map, not over %s", e.c.describeAt(in, at))
	}
}

func (e *stepDecl) addSecretKeys(at document.Path) {
	e.c.Report(document.Fault{At: at, Hint: "use a map: its keys are shown, and its values are not"}, "the names of the steps would show a sensitive value")
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
func (e *stepDecl) addInstance(key string, v any, at document.Path, seen map[string]bool) (ok bool) {
	c := e.c
	if c.sum.steps > maxSteps {
		return false
	}
	switch {
	case isUnsaid(v):
		return true
	case len(key) > maxKey || !instanceKey.MatchString(key):
		c.Report(document.Fault{At: at, Hint: "use letters, digits, -, _ and ., or a map with such keys"}, "%s cannot be the key of a step", c.quote(key, at))
		return true
	case seen[key]:
		c.Report(document.Fault{Code: document.CodeDuplicate, At: at, Hint: "each item must have a key of its own; a map gives them"}, "two items have the same key")
		return true
	}
	if c.sum.steps++; c.sum.steps > maxSteps {
		c.ReportField(document.Fault{At: e.at.Key("for_each")}, "the plan has more than %d steps once for_each and include are put in", maxSteps)
		return false
	}
	seen[key] = true
	e.instances = append(e.instances, &instance{key: key, value: v})
	return true
}

// readSteps resolves, decodes and checks the steps.
func (c *checker) readSteps() {
	for _, include := range []bool{true, false} { // others may read what included plans have
		for _, e := range c.decls {
			if e.isInclude != include {
				continue
			}
			for _, it := range e.instances {
				c.readStep(e, it)
			}
			e.checkGroup()
		}
	}
}

func (c *checker) readStep(e *stepDecl, it *instance) {
	s := c.stepScope(e, it)
	it.tree, it.secretAt = c.expandInstance(e, s, len(e.instances) > 1)
	it.refs = s.refs
	it.skip = it.skip || it.tree["when"] == false
	c.decodeStep(e, it, &it.step)
	if e.isInclude && it.step.Include != nil {
		it.child = c.include(e, it)
	}
}

// expandInstance gives the fields of one step with their expressions resolved, and where
// these read sensitive values.
func (c *checker) expandInstance(e *stepDecl, s *scope, copies bool) (tree map[string]any, secretAt map[string]bool) {
	x := expander{checker: c, scope: s, copies: copies, skip: c.skip}
	tree = make(map[string]any, len(e.raw))
	if when, has := e.raw["when"]; has {
		tree["when"] = x.expand(when, e.at.Key("when"))
		x.skip = x.skip || tree["when"] == false
	}
	for _, k := range slices.Sorted(maps.Keys(e.raw)) {
		switch {
		case k == "when":
		case slices.Contains(headFields, k):
			tree[k] = e.raw[k]
		default:
			x.static = ""
			if slices.Contains(staticFields, k) {
				x.static = k
			}
			tree[k] = x.expand(e.raw[k], e.at.Key(k))
		}
	}
	return tree, x.secretAt
}

// decodeStep fills a step from its fields and checks it.
func (c *checker) decodeStep(e *stepDecl, it *instance, step *plan.Step) {
	c.step, c.stepAt = it.tree, e.at
	c.set(reflect.ValueOf(step).Elem(), it.tree, e.at)
	c.checkStep(*step, e)
	step.ForEach = nil
	c.step, c.stepAt = nil, nil
}

// flatName is the name of one of the steps in the whole plan.
func (e *stepDecl) flatName(it *instance) string {
	if e.grouped {
		return e.c.prefix + e.name + "[" + it.key + "]"
	}
	return e.c.prefix + e.name
}

// checkGroup looks at what the steps of a for_each have in common: each helm step
// needs a release of its own.
func (e *stepDecl) checkGroup() {
	if !e.grouped || e.isInclude {
		return
	}
	first := map[[3]string]string{}
	for _, it := range e.instances {
		h := it.step.Helm
		at := e.at.Key("helm")
		if h == nil || it.skip {
			continue
		}
		if _, given := it.tree["helm"].(map[string]any)["release"]; !given {
			e.c.ReportField(document.Fault{At: at, Hint: "give release, with ${{ each.key }} in it"}, "a helm step with for_each must say its release")
			return
		}
		key := [3]string{h.Release, h.Namespace, it.step.Cluster}
		was, dup := first[key]
		switch {
		case h.Release == "", isUnsaid(it.tree["helm"].(map[string]any)["namespace"]):
		case dup:
			e.c.Report(document.Fault{Code: document.CodeDuplicate, At: at.Key("release"), Hint: "put ${{ each.key }} into it"}, "the release %q is that of two items: %s and %s", h.Release, was, it.key)
			return
		default:
			first[key] = it.key
		}
	}
}

// totals count what is bounded in the plan and all that it includes.
type totals struct {
	steps, files, bytes, needs, inputs int
	tooMany                            bool
}
