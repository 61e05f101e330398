package vars

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/internal/files"
	"github.com/kplan-dev/kplan/plan/load/internal/value"
)

// give notes a value of a variable, which wins over those given before.
func (r *reader) give(d *declaration, g Given) {
	if d.sensitive {
		r.Secrets.Add(g.Value)
		r.Secrets.Add(g.text)
	}
	d.from = g
}

// giveEnv looks for the environment variables that the plan names.
func (r *reader) giveEnv() {
	lookup := r.Env
	if lookup == nil {
		lookup = os.LookupEnv
	}
	for _, d := range r.sorted {
		if d.env == "" {
			continue
		}
		text, ok := lookup(d.env)
		switch {
		case !ok:
		case !utf8.ValidString(text):
			r.Report(document.Fault{Code: document.CodeVariable, At: d.at.Key("env")}, "the environment variable %s is not UTF-8 text", d.env)
			d.quiet = true
		default:
			r.give(d, Given{Source: plan.SourceEnv, text: text, isText: true, Origin: document.Origin{Text: r.Source, At: d.at.Key("env")}})
		}
	}
}

// giveFile reads a YAML file of name: value. Faults show no value of it, for it
// may well be a secret.
func (r *reader) giveFile(file string, order int) {
	o := document.Options{Order: order, Private: true, Keys: document.VarKeys}
	src, err := files.Read(file, document.MaxSize)
	if err != nil {
		r.Add(document.NewSource(file, nil, o, r.Faults), document.Pos{File: file}, document.Fault{Code: document.CodeFile}, "%s", err)
		return
	}
	src, sealed := r.decrypt(file, src, o)
	s, tree, ok := document.Read(file, src, o, r.Faults)
	if !ok {
		return
	}
	values, isMap := tree.(map[string]any)
	if !isMap {
		r.Add(s, s.ValuePos(nil), document.Fault{Code: document.CodeWrongType, Hint: "write one name: value on each line"}, "expected a mapping of variables, got %s", document.DescribeType(tree))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if sealed.locked && name == "sops" { // what SOPS itself has there
			continue
		}
		if d := r.byName[name]; d != nil {
			d.sensitive = d.sensitive || sealed.has(name)
			if sealed.locked && sealed.has(name) {
				d.from, d.quiet = Given{}, true // nobody knows it here
				continue
			}
			r.give(d, Given{Source: plan.SourceVarFile, Value: values[name], Origin: document.Origin{Text: s, At: document.Path{name}}})
			continue
		}
		r.Add(s, s.KeyPos(document.Path{name}), document.Fault{Code: document.CodeUnknownName, At: document.Path{name}, Hint: r.varHint(name)}, "the plan declares no variable %q", name)
	}
}

// giveSet reads the name=value pairs of the command line.
func (r *reader) giveSet(set []string) {
	for _, arg := range set {
		name, text, found := strings.Cut(arg, "=")
		name = strings.TrimSpace(name)
		d := r.byName[name]
		switch {
		case !found:
			r.Add(nil, setPos(name), document.Fault{Code: document.CodeVariable, Hint: "write --set name=value"}, "the = and the value are missing")
		case d == nil:
			r.Add(nil, setPos(name), document.Fault{Code: document.CodeUnknownName, Hint: r.varHint(name)}, "the plan declares no variable %q", name)
		default:
			r.give(d, Given{Source: plan.SourceSet, text: text, isText: true})
		}
	}
}

// giveFleet takes the values that a fleet gives for one of its clusters.
func (r *reader) giveFleet(values map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if d := r.byName[name]; d != nil {
			r.give(d, Given{Source: plan.SourceFleet, Value: values[name]})
			continue
		}
		r.Add(nil, fleetPos(name), document.Fault{Code: document.CodeUnknownName, Hint: r.varHint(name)}, "the plan declares no variable %q", name)
	}
}

func fleetPos(name string) document.Pos {
	return document.Pos{File: "vars of the fleet: " + document.Cut(name, 60)}
}

func setPos(name string) document.Pos { return document.Pos{File: "--set " + document.Cut(name, 60)} }

// giveIncluded takes the values of the plan that includes this one.
func (r *reader) giveIncluded(included map[string]Given) {
	for _, name := range slices.Sorted(maps.Keys(included)) {
		g := included[name]
		if d := r.byName[name]; d != nil {
			g.Source = plan.SourceInclude
			d.sensitive = d.sensitive || g.Secret
			r.give(d, g)
			continue
		}
		r.Add(g.Origin.Text, g.Origin.Text.KeyPos(g.Origin.At), document.Fault{Code: document.CodeUnknownName, At: g.Origin.At, Hint: r.varHint(name)}, "the plan %s declares no variable %q", r.Source.File(), name)
	}
}

func (r *reader) varHint(name string) string {
	names := r.Names()
	if hint := r.Near.Hint(name, names); hint != "" {
		return hint
	}
	if first, _, dotted := strings.Cut(name, "."); dotted && r.byName[first] != nil {
		return fmt.Sprintf("give the whole value of %q, or use a --var-file", first)
	}
	if len(names) == 0 {
		return "it declares none"
	}
	return "it declares " + document.Cut(strings.Join(names, ", "), 120)
}

// settle makes the variable's value of what was given.
func (r *reader) settle(d *declaration) {
	d.value = value.Invalid{}
	switch _, bad := d.from.Value.(value.Invalid); {
	case d.from.Source == "" && (d.sensitive && r.Unknown || r.Unset):
		d.value = value.Deferred{}
		return
	case bad, d.from.Source == plan.SourceDefault && d.badDefault, d.from.Source == "" && d.quiet:
		d.broken = true
		return
	case d.from.Source == "":
		d.broken = true
		if in := r.Include; in != nil && d.env == "" {
			in.ReportField(document.Fault{Code: document.CodeVariable, At: in.At, Hint: fmt.Sprintf("give it in vars of the include: %s: VALUE", d.name)},
				"the step %q includes %s, whose %s %q has no value", in.Step, in.Plan, d.noun(), d.name)
			return
		}
		r.ReportField(document.Fault{Code: document.CodeVariable, At: d.at, Hint: r.giveHint(d)}, "the %s %q has no value", d.noun(), d.name)
		return
	case d.from.Value == value.Deferred{}:
		d.value = value.Deferred{}
		return
	}
	v, err := judge(d, d.from, r.Near)
	if err == nil {
		d.value = v
		return
	}
	d.broken = true
	r.addGiven(d, v, err.hint, "%s", err.message)
}

// addGiven reports a fault of a variable's value where the value is given.
func (r *reader) addGiven(d *declaration, v any, hint, format string, args ...any) {
	g := d.from
	switch {
	case r.Full():
		r.Skip(1)
	case g.Source == plan.SourceFleet:
		r.Add(nil, fleetPos(d.name), document.Fault{Code: document.CodeVariable, Hint: hint}, format, args...)
	case g.Origin.Text == nil:
		r.Add(nil, setPos(d.name), document.Fault{Code: document.CodeVariable, Hint: hint}, format, args...)
	case v == nil && !g.isText: // an empty value has no place of its own
		r.Add(g.Origin.Text, g.Origin.Text.KeyPos(g.Origin.At), document.Fault{Code: document.CodeVariable, At: g.Origin.At, Hint: hint}, format, args...)
	default:
		r.Add(g.Origin.Text, g.Origin.Text.ValuePos(g.Origin.At), document.Fault{Code: document.CodeVariable, At: g.Origin.At, Hint: hint}, format, args...)
	}
}
