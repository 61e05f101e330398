package vars

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load/internal/names"
	"github.com/kplan-dev/kplan/plan/load/internal/value"
)

// declaration is a variable as the plan declares it, and the value that it got.
type declaration struct {
	name, description string
	// at is where the plan declares it.
	at  document.Path
	typ plan.VarType
	// like says what typ was concluded from: "as the default is"; "" when the plan
	// says it.
	like                string
	allowed             []any
	conditions          []condition
	required, sensitive bool
	env                 string
	ref                 *plan.KeyRef
	// badDefault says that a fault of the default is reported, and quiet that one is
	// which may be why there is no value. broken says that there is any.
	badDefault, quiet, broken bool

	// def is the default, with hasDefault.
	def        any
	hasDefault bool

	from  Given
	value any
}

// declare reads a declaration and reports where it contradicts itself. What is of
// the wrong type is left to decode.
func (r *reader) declare(name string, declared any) {
	d := &declaration{name: name, at: document.Path{"vars", name}, typ: plan.VarAny}
	r.byName[name] = d
	r.sorted = append(r.sorted, d)
	if !names.IsIdentifier(name) {
		r.ReportField(document.Fault{At: d.at, Hint: "use letters, digits and _ only, and no digit first"}, "%q cannot be the name of a variable", name)
	}
	raw, ok := declared.(map[string]any)
	if !ok {
		d.quiet = true
		return
	}
	d.description, _ = raw["description"].(string)
	d.required, _ = raw["required"].(bool)
	sensitive, said := raw["sensitive"]
	d.sensitive = said && sensitive != false || !said && raw["secret"] != nil
	if d.sensitive {
		for _, field := range secretFields {
			r.Source.Hide(d.at.Key(field))
		}
	}
	for k := range raw {
		d.quiet = d.quiet || !slices.Contains(fields, k) // it may be meant to give the value
	}
	for _, field := range secretFields {
		if v, has := raw[field]; has {
			raw[field] = r.Unescape(v, d.at.Key(field))
		}
	}
	d.def, d.hasDefault = raw["default"]
	r.declareType(d, raw)
	r.declareAllowed(d, raw)
	r.declareConditions(d, raw)
	r.declareDefault(d)
	r.declareRef(d, raw)
	r.declareEnv(d, raw)
}

func (r *reader) declareEnv(d *declaration, raw map[string]any) {
	env, isText := raw["env"].(string)
	switch {
	case raw["env"] == nil:
	case !isText:
		d.quiet = true
	case names.IsIdentifier(env):
		d.env = env
	default:
		d.quiet, d.broken = true, true
		r.Report(document.Fault{At: d.at.Key("env"), Hint: "write the name only, such as GITHUB_TOKEN"}, "%q cannot be the name of an environment variable", env)
	}
}

// fields are those of a variable.
var fields = []string{"default", "description", "type", "allowed", "validation", "required", "env", "secret", "config_map", "sensitive"}

// secretFields are the fields of a sensitive variable that are not shown.
var secretFields = []string{"default", "allowed"}

// declareType finds the type: what the plan says, else what the default is, else
// what all allowed values are.
func (r *reader) declareType(d *declaration, raw map[string]any) {
	if said, has := raw["type"]; has && said != nil {
		s, _ := said.(string)
		if _, known := typeNouns[plan.VarType(s)]; known {
			d.typ = plan.VarType(s)
		}
		return
	}
	if t := typeOf(raw["default"]); t != plan.VarAny {
		d.typ, d.like = t, " as the default is"
		return
	}
	allowed, _ := raw["allowed"].([]any)
	for i, v := range allowed {
		if t := typeOf(v); i == 0 || t == d.typ {
			d.typ, d.like = t, " as the allowed values are"
		} else {
			d.typ, d.like = plan.VarAny, ""
			return
		}
	}
}

func (r *reader) declareAllowed(d *declaration, raw map[string]any) {
	list, ok := raw["allowed"].([]any)
	if ok && len(list) == 0 {
		d.quiet, d.broken = true, true
		r.ReportField(document.Fault{Code: document.CodeVariable, At: d.at.Key("allowed"), Hint: "name the values, or leave allowed out"}, "allowed is empty: the variable %q could have no value", d.name)
	}
	for i, v := range list {
		at := d.at.Key("allowed").Index(i)
		switch _, bad := v.(value.Invalid); {
		case bad:
		case !hasType(v, d.typ):
			d.broken = true
			r.Report(document.Fault{Code: document.CodeVariable, At: at, Hint: r.quoteHint(d, at, v)}, "expected %s%s, got %s", typeNouns[d.typ], d.like, r.describe(d, v, at))
		case among(d.allowed, v):
			d.broken = true
			r.Report(document.Fault{Code: document.CodeDuplicate, At: at, Hint: "remove it"}, "the value is allowed twice")
		default:
			d.allowed = append(d.allowed, v)
		}
	}
}

func (r *reader) declareDefault(d *declaration) {
	v := d.def
	if !d.hasDefault {
		return
	}
	at := d.at.Key("default")
	r.give(d, Given{Source: plan.SourceDefault, Value: v, Origin: document.Origin{Text: r.Source, At: at}})
	_, bad := v.(value.Invalid)
	switch {
	case bad:
	case d.required:
		r.ReportField(document.Fault{Code: document.CodeVariable, At: d.at.Key("required"), Hint: "remove one: who must give a value cannot leave it to the default"}, "the variable %q is required and has a default", d.name)
	case !hasType(v, d.typ):
		r.addGiven(d, v, r.quoteHint(d, at, v), "the type is %s, but the default is %s", d.typ, r.describe(d, v, at))
	case len(d.allowed) > 0 && !among(d.allowed, v):
		r.addGiven(d, v, allowedHint(d, v, r.Near), "the default is none of the allowed values")
	default:
		return
	}
	d.badDefault, d.broken = true, true
}

// quoteHint says how to write a text that YAML reads as something else.
func (r *reader) quoteHint(d *declaration, at document.Path, v any) string {
	if n, _ := r.Source.Node(at); d.typ == plan.VarString && n != nil && value.IsScalar(v) && n.Style == 0 && !d.sensitive {
		return "quote it to mean the text: " + strconv.Quote(document.Cut(n.Value, 60))
	}
	return ""
}

// declareRef reads which key of a cluster's object gives the value. It wins over
// the default, which is for when there is no such key.
func (r *reader) declareRef(d *declaration, raw map[string]any) {
	field, source := "secret", plan.SourceSecret
	if raw["secret"] != nil && raw["config_map"] != nil {
		r.ReportField(document.Fault{Code: document.CodeVariable, At: d.at.Key("config_map"), Hint: "keep one of them"}, "the variable %q has both secret and config_map", d.name)
		d.broken = true
	} else if raw["config_map"] != nil {
		field, source = "config_map", plan.SourceConfigMap
	}
	if raw[field] == nil {
		return
	}
	m, ok := raw[field].(map[string]any)
	if !ok {
		d.quiet, d.broken = true, true
		return
	}
	at := d.at.Key(field)
	text := func(name string) string { s, _ := m[name].(string); return s }
	d.ref = &plan.KeyRef{Cluster: text("cluster"), Namespace: text("namespace"), Name: text("name"), Key: text("key")}
	r.give(d, Given{Source: source, Value: value.Deferred{}, Origin: document.Origin{Text: r.Source, At: at}})
	if m["key"] == nil {
		r.ReportField(document.Fault{Code: document.CodeMissingField, At: at, Hint: "say which key of its data has the value"}, "the field %q is missing in %s", "key", at)
		d.broken = true
	}
	r.checkRef(d, at, m, "name", names.IsSubdomain(d.ref.Name, names.MaxSubdomain), "name of an object")
	r.checkRef(d, at, m, "namespace", names.IsLabel(d.ref.Namespace), "namespace")
	r.checkRef(d, at, m, "key", names.IsDataKey(d.ref.Key), "key of a Secret or ConfigMap")
	if d.ref.Cluster != "" && !r.HasCluster(d.ref.Cluster, at.Key("cluster")) {
		d.broken = true
	}
}

// checkRef reports a field of a reference that is a text but cannot be what it
// should.
func (r *reader) checkRef(d *declaration, at document.Path, m map[string]any, field string, good bool, what string) {
	v, isText := m[field].(string)
	if !isText || good {
		return
	}
	hint := ""
	if strings.Contains(v, "${{") {
		hint = "what a variable comes from cannot have expressions"
	}
	d.broken = true
	r.Report(document.Fault{At: at.Key(field), Hint: hint}, "%q cannot be the %s", document.Cut(v, 60), what)
}

// noun is what messages call the variable.
func (d *declaration) noun() string {
	if d.required {
		return "required variable"
	}
	return "variable"
}

// giveHint says how to give a variable of the plan a value.
func (r *reader) giveHint(d *declaration) string {
	hint, or := fmt.Sprintf("--set %s=VALUE, or a line in a --var-file", d.name), ""
	if r.Include != nil {
		hint, or = "a value in vars of the step that includes the plan", "or "
	}
	switch {
	case d.env != "":
		return "set the environment variable " + d.env + ", or give " + hint
	case d.required, d.sensitive: // a plan is no place for secrets
		return "give " + hint
	}
	return "give it a default, " + or + hint
}

// describe says in words what a value of a variable is that the file gives.
func (r *reader) describe(d *declaration, v any, at document.Path) string {
	if d.sensitive {
		return "something else"
	}
	return r.Describe(v, at)
}
