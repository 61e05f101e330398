package load

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
)

// declaration is a variable as the plan declares it, and the value that it got.
type declaration struct {
	name, description string
	// at is where the plan declares it.
	at  path
	typ plan.VarType
	// like says what typ was concluded from: "as the default is"; "" when the plan
	// says it.
	like                string
	allowed             []any
	required, sensitive bool
	env                 string
	ref                 *plan.KeyRef
	// badDefault says that a fault of the default is reported, and quiet that one is
	// which may be why there is no value. broken says that there is any.
	badDefault, quiet, broken bool

	from  given
	value any
}

// declare reads a declaration and reports where it contradicts itself. What is of
// the wrong type is left to decode.
func (c *pass) declare(name string, declared any) {
	d := &declaration{name: name, at: path{"vars", name}, typ: plan.VarAny}
	c.vars[name] = d
	c.declared = append(c.declared, d)
	if !varName.MatchString(name) {
		c.ReportField(fault{At: d.at, Hint: "use letters, digits and _ only, and no digit first"}, "%q cannot be the name of a variable", name)
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
			c.Source.Hide(d.at.Key(field))
		}
	}
	for k := range raw {
		known := slices.ContainsFunc(structFields(reflect.TypeFor[plan.Var]()), func(f structField) bool { return f.name == k })
		d.quiet = d.quiet || !known // it may be meant to give the value
	}
	for _, field := range []string{"default", "allowed"} {
		if v, has := raw[field]; has {
			x := expander{pass: c, literal: true}
			raw[field] = x.expand(v, d.at.Key(field))
		}
	}
	c.declareType(d, raw)
	c.declareAllowed(d, raw)
	c.declareDefault(d, raw)
	c.declareRef(d, raw)
	c.declareEnv(d, raw)
}

func (c *pass) declareEnv(d *declaration, raw map[string]any) {
	env, isText := raw["env"].(string)
	switch {
	case raw["env"] == nil:
	case !isText:
		d.quiet = true
	case envName.MatchString(env):
		d.env = env
	default:
		d.quiet, d.broken = true, true
		c.Report(fault{At: d.at.Key("env"), Hint: "write the name only, such as GITHUB_TOKEN"}, "%q cannot be the name of an environment variable", env)
	}
}

// secretFields are the fields of a sensitive variable that are not shown.
var secretFields = []string{"default", "allowed"}

// declareType finds the type: what the plan says, else what the default is, else
// what all allowed values are.
func (c *pass) declareType(d *declaration, raw map[string]any) {
	if said, has := raw["type"]; has && said != nil {
		if s, ok := said.(string); ok && slices.Contains(enums[reflect.TypeFor[plan.VarType]()], s) {
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

func (c *pass) declareAllowed(d *declaration, raw map[string]any) {
	list, ok := raw["allowed"].([]any)
	if ok && len(list) == 0 {
		d.quiet, d.broken = true, true
		c.ReportField(fault{Code: document.CodeVariable, At: d.at.Key("allowed"), Hint: "name the values, or leave allowed out"}, "allowed is empty: the variable %q could have no value", d.name)
	}
	for i, v := range list {
		at := d.at.Key("allowed").Index(i)
		switch _, bad := v.(invalid); {
		case bad:
		case !hasType(v, d.typ):
			d.broken = true
			c.Report(fault{Code: document.CodeVariable, At: at, Hint: c.quoteHint(d, at, v)}, "expected %s%s, got %s", typeNoun(d.typ), d.like, c.describeAt(v, at))
		case among(d.allowed, v):
			d.broken = true
			c.Report(fault{Code: document.CodeDuplicate, At: at, Hint: "remove it"}, "the value is allowed twice")
		default:
			d.allowed = append(d.allowed, v)
		}
	}
}

func (c *pass) declareDefault(d *declaration, raw map[string]any) {
	v, has := raw["default"]
	if !has {
		return
	}
	at := d.at.Key("default")
	c.give(d, given{source: plan.SourceDefault, value: v, origin: document.Origin{Text: c.text, At: at}})
	_, bad := v.(invalid)
	switch {
	case bad:
	case d.required:
		c.ReportField(fault{Code: document.CodeVariable, At: d.at.Key("required"), Hint: "remove one: who must give a value cannot leave it to the default"}, "the variable %q is required and has a default", d.name)
	case !hasType(v, d.typ):
		c.addGiven(d, v, c.quoteHint(d, at, v), "the type is %s, but the default is %s", d.typ, c.describeAt(v, at))
	case len(d.allowed) > 0 && !among(d.allowed, v):
		c.addGiven(d, v, c.allowedHint(d, v), "the default is none of the allowed values")
	default:
		return
	}
	d.badDefault, d.broken = true, true
}

// quoteHint says how to write a text that YAML reads as something else.
func (c *pass) quoteHint(d *declaration, at path, v any) string {
	if n, _ := c.Source.Node(at); d.typ == plan.VarString && n != nil && isScalar(v) && n.Style == 0 && !d.sensitive {
		return "quote it to mean the text: " + strconv.Quote(document.Cut(n.Value, 60))
	}
	return ""
}

func isScalar(v any) bool {
	switch v.(type) {
	case nil, []any, map[string]any:
		return false
	}
	return true
}

var dataKey = regexp.MustCompile(`^[-._a-zA-Z0-9]{1,253}$`)

// declareRef reads which key of a cluster's object gives the value. It wins over
// the default, which is for when there is no such key.
func (c *pass) declareRef(d *declaration, raw map[string]any) {
	field, source := "secret", plan.SourceSecret
	if raw["secret"] != nil && raw["config_map"] != nil {
		c.ReportField(fault{Code: document.CodeVariable, At: d.at.Key("config_map"), Hint: "keep one of them"}, "the variable %q has both secret and config_map", d.name)
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
	c.give(d, given{source: source, value: deferred{}, origin: document.Origin{Text: c.text, At: at}})
	if m["key"] == nil {
		c.ReportField(fault{Code: document.CodeMissingField, At: at, Hint: "say which key of its data has the value"}, "the field %q is missing%s", "key", in(at))
		d.broken = true
	}
	c.checkRef(d, at, "name", len(d.ref.Name) <= 253 && dnsSubdomain.MatchString(d.ref.Name), "name of an object")
	c.checkRef(d, at, "namespace", len(d.ref.Namespace) <= 63 && dnsLabel.MatchString(d.ref.Namespace), "namespace")
	c.checkRef(d, at, "key", dataKey.MatchString(d.ref.Key), "key of a Secret or ConfigMap")
	c.checkRefCluster(d, at.Key("cluster"))
}

func (c *pass) checkRefCluster(d *declaration, at path) {
	clusters, ok := c.tree["clusters"].(map[string]any)
	_, known := clusters[d.ref.Cluster]
	if d.ref.Cluster == "" || known || !ok && c.tree["clusters"] != nil {
		return
	}
	hint := cmp.Or(c.near.Hint(d.ref.Cluster, slices.Sorted(maps.Keys(clusters))), "declare it under clusters")
	d.broken = true
	c.Report(fault{Code: document.CodeUnknownName, At: at, Hint: hint}, "there is no cluster %q", d.ref.Cluster)
}

// checkRef reports a field of a reference that is a text but cannot be what it
// should.
func (c *pass) checkRef(d *declaration, at path, field string, good bool, what string) {
	v, isText := c.validator().value(at.Key(field)).(string)
	if !isText || good {
		return
	}
	hint := ""
	if strings.Contains(v, "${{") {
		hint = "what a variable comes from cannot have expressions"
	}
	d.broken = true
	c.Report(fault{At: at.Key(field), Hint: hint}, "%q cannot be the %s", document.Cut(v, 60), what)
}

// noun is what messages call the variable.
func (d *declaration) noun() string {
	if d.required {
		return "required variable"
	}
	return "variable"
}

// giveHint says how to give a variable of the plan a value.
func (c *pass) giveHint(d *declaration) string {
	hint, or := fmt.Sprintf("--set %s=VALUE, or a line in a --var-file", d.name), ""
	if c.parent != nil {
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

// allowedHint says what the variable takes.
func (c *pass) allowedHint(d *declaration, v any) string {
	if d.sensitive {
		return ""
	}
	if s, ok := v.(string); ok {
		var texts []string
		for _, a := range d.allowed {
			if t, ok := a.(string); ok {
				texts = append(texts, t)
			}
		}
		if hint := c.near.Hint(s, texts); hint != "" {
			return hint
		}
	}
	return "allowed are " + literals(d.allowed)
}
