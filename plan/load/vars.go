package load

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
)

var (
	varName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	envName = varName
)

// readVars gives the value of every variable that the plan declares, from who
// wins of those who give one: see VarSource. A variable whose fault is reported is
// invalid, one that is known only when a step needs it is deferred. It is nil when
// vars cannot be understood. included are the values that an including plan gives.
func (c *pass) readVars(root map[string]any, in Options, included map[string]given) map[string]any {
	declared, ok := root["vars"].(map[string]any)
	if root["vars"] != nil && !ok {
		return nil
	}
	c.vars = make(map[string]*declaration, len(declared))
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		c.declare(name, declared[name])
	}
	c.giveEnv(in)
	for i, file := range in.VarFiles {
		c.giveFile(file, i+1)
	}
	c.giveSet(in.Set)
	c.giveIncluded(included)
	values := make(map[string]any, len(declared))
	for _, d := range c.declared {
		c.settle(d, in.Unknown)
		values[d.name] = d.value
	}
	return values
}

// give notes a value of a variable, which wins over those given before.
func (c *pass) give(d *declaration, g given) {
	if d.sensitive {
		c.Secrets.Add(g.value)
		c.Secrets.Add(g.text)
	}
	d.from = g
}

// giveEnv looks for the environment variables that the plan names.
func (c *pass) giveEnv(in Options) {
	lookup := in.Env
	if lookup == nil {
		lookup = os.LookupEnv
	}
	for _, d := range c.declared {
		if d.env == "" {
			continue
		}
		text, ok := lookup(d.env)
		switch {
		case !ok:
		case !utf8.ValidString(text):
			c.Report(fault{Code: document.CodeVariable, At: d.at.Key("env")}, "the environment variable %s is not UTF-8 text", d.env)
			d.quiet = true
		default:
			c.give(d, given{source: plan.SourceEnv, text: text, isText: true, origin: document.Origin{Text: c.text, At: d.at.Key("env")}})
		}
	}
}

// giveFile reads a YAML file of name: value. Faults show no value of it, for it
// may well be a secret.
func (c *pass) giveFile(file string, order int) {
	o := document.Options{Order: order, Private: true, Keys: document.VarKeys}
	src, err := readFile(file)
	if err != nil {
		c.Add(document.NewSource(file, nil, o, c.Faults), document.Pos{File: file}, fault{Code: document.CodeFile}, "%s", err)
		return
	}
	s, tree, ok := document.Read(file, src, o, c.Faults)
	if !ok {
		return
	}
	values, isMap := tree.(map[string]any)
	if !isMap {
		c.Add(s, s.ValuePos(nil), fault{Code: document.CodeWrongType, Hint: "write one name: value on each line"}, "expected a mapping of variables, got %s", document.DescribeType(tree))
		return
	}
	text := document.TextOf(s)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if d := c.vars[name]; d != nil {
			c.give(d, given{source: plan.SourceVarFile, value: values[name], origin: document.Origin{Text: text, At: path{name}}})
			continue
		}
		c.Add(s, s.KeyPos(path{name}), fault{Code: document.CodeUnknownName, At: path{name}, Hint: c.varHint(name)}, "the plan declares no variable %q", name)
	}
}

// giveSet reads the name=value pairs of the command line.
func (c *pass) giveSet(set []string) {
	for _, arg := range set {
		name, text, found := strings.Cut(arg, "=")
		name = strings.TrimSpace(name)
		d := c.vars[name]
		switch {
		case !found:
			c.Add(nil, setPos(name), fault{Code: document.CodeVariable, Hint: "write --set name=value"}, "the = and the value are missing")
		case d == nil:
			c.Add(nil, setPos(name), fault{Code: document.CodeUnknownName, Hint: c.varHint(name)}, "the plan declares no variable %q", name)
		default:
			c.give(d, given{source: plan.SourceSet, text: text, isText: true})
		}
	}
}

func setPos(name string) document.Pos { return document.Pos{File: "--set " + document.Cut(name, 60)} }

// giveIncluded takes the values of the plan that includes this one.
func (c *pass) giveIncluded(included map[string]given) {
	for _, name := range slices.Sorted(maps.Keys(included)) {
		g := included[name]
		if d := c.vars[name]; d != nil {
			g.source = plan.SourceInclude
			d.sensitive = d.sensitive || g.secret
			c.give(d, g)
			continue
		}
		c.Add(g.origin.Text.Source(), g.origin.Text.Source().KeyPos(g.origin.At), fault{Code: document.CodeUnknownName, At: g.origin.At, Hint: c.varHint(name)}, "the plan %s declares no variable %q", c.plan.File, name)
	}
}

func (c *pass) varHint(name string) string {
	names := slices.Sorted(maps.Keys(c.vars))
	if hint := c.near.Hint(name, names); hint != "" {
		return hint
	}
	if first, _, dotted := strings.Cut(name, "."); dotted && c.vars[first] != nil {
		return fmt.Sprintf("give the whole value of %q, or use a --var-file", first)
	}
	if len(names) == 0 {
		return "it declares none"
	}
	return "it declares " + document.Cut(strings.Join(names, ", "), 120)
}

// settle makes the variable's value of what was given.
func (c *pass) settle(d *declaration, unknown bool) {
	d.value = invalid{}
	switch _, bad := d.from.value.(invalid); {
	case bad, d.from.source == plan.SourceDefault && d.badDefault, d.from.source == "" && d.quiet:
		d.broken = true
		return
	case d.from.source == "" && d.sensitive && unknown:
		d.value = deferred{}
		return
	case d.from.source == "":
		d.broken = true
		if parent := c.parent; parent != nil && d.env == "" {
			c.session.pass(parent, parent.source).ReportField(fault{Code: document.CodeVariable, At: c.parentDecl.at.Key("include"), Hint: fmt.Sprintf("give it in vars of the include: %s: VALUE", d.name)}, "the step %q includes %s, whose %s %q has no value", c.parentDecl.name, c.parentInstance.step.Include.Plan, d.noun(), d.name)
			return
		}
		c.ReportField(fault{Code: document.CodeVariable, At: d.at, Hint: c.giveHint(d)}, "the %s %q has no value", d.noun(), d.name)
		return
	case d.from.value == deferred{}:
		d.value = deferred{}
		return
	}
	v, err := c.judge(d, d.from)
	if err == nil {
		d.value = v
		return
	}
	d.broken = true
	c.addGiven(d, v, err.hint, "%s", err.message)
}

// varError is what is wrong with a variable's value.
type varError struct{ message, hint string }

func (e *varError) Error() string { return e.message }

// judge gives the value that g makes for the variable, or why it cannot be one;
// then with the value as it is.
func (c *pass) judge(d *declaration, g given) (any, *varError) {
	show := g.quotable() && !d.sensitive
	where := ""
	if g.source == plan.SourceEnv {
		where = " in the environment variable " + d.env
	}
	v := g.value
	if g.isText {
		var err error
		if v, err = parseValue(g.text, d.typ); err != nil {
			return nil, &varError{message: d.refusal(err, show, where)}
		}
	}
	switch {
	case !hasType(v, d.typ):
		got, hint := document.DescribeType(v), ""
		if d.typ == plan.VarString && isScalar(v) {
			hint = "quote it to mean the text"
		}
		if d.sensitive {
			got = "something else"
		} else if show {
			got = document.Describe(v)
		}
		return v, &varError{"expected " + typeNoun(d.typ) + d.like + ", got " + got, hint}
	case d.required && isEmpty(v):
		return v, &varError{fmt.Sprintf("the required variable %q is empty%s", d.name, where), "it needs a value that says something"}
	case len(d.allowed) > 0 && !among(d.allowed, v):
		got := "the value" + where
		if show {
			got = plan.Literal(v)
		}
		return v, &varError{got + " is none of the allowed values", c.allowedHint(d, v)}
	}
	return v, nil
}

// refusal says why a text could not be read as a value.
func (d *declaration) refusal(err error, show bool, where string) string {
	wrong, ok := errors.AsType[*typeError](err)
	switch {
	case ok && show:
		return "expected " + typeNoun(d.typ) + d.like + ", got " + wrong.got
	case ok:
		return "expected " + typeNoun(d.typ) + where + ", got other text"
	case show:
		return err.Error()
	}
	return "the value" + where + " is not valid YAML"
}

// addGiven reports a fault of a variable's value where the value is given.
func (c *pass) addGiven(d *declaration, v any, hint, format string, args ...any) {
	g := d.from
	switch {
	case c.Full():
		c.Skip(1)
	case g.origin.Text == nil:
		c.Add(nil, setPos(d.name), fault{Code: document.CodeVariable, Hint: hint}, format, args...)
	case v == nil && !g.isText: // an empty value has no place of its own
		c.Add(g.origin.Text.Source(), g.origin.Text.Source().KeyPos(g.origin.At), fault{Code: document.CodeVariable, At: g.origin.At, Hint: hint}, format, args...)
	default:
		c.Add(g.origin.Text.Source(), g.origin.Text.Source().ValuePos(g.origin.At), fault{Code: document.CodeVariable, At: g.origin.At, Hint: hint}, format, args...)
	}
}
