package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/plan"
)

// planSchema is the schema of a plan.
func planSchema(from sources) (*node, error) {
	c, err := readComments(from.plan)
	if err != nil {
		return nil, err
	}
	g := generator{comments: c, plain: literal, ofTypes: ofTypes, ofFields: ofFields, used: map[string]bool{}}
	root, err := g.object(reflect.TypeFor[plan.Plan]())
	if err != nil {
		return nil, err
	}
	root.Title = "kplan plan"
	root.Description = "The steps of an install, and what each of them needs."
	return g.finish(root)
}

// finish makes a whole schema of its root.
func (g *generator) finish(root *node) (*node, error) {
	root.Schema = "http://json-schema.org/draft-07/schema#"
	slices.SortFunc(g.definitions, func(a, b property) int { return strings.Compare(a.name, b.name) })
	root.Definitions = g.definitions
	return root, g.unused()
}

// indent writes a schema, if there is one.
func indent(root *node, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err = e.Encode(root)
	return out.Bytes(), err
}

// generator makes schemas of types.
type generator struct {
	*comments
	// plain tells the types whose fields are no expressions.
	plain func(reflect.Type) bool
	// open says that there may be more fields than are known.
	open bool
	// ofTypes and ofFields say what holds beyond the types.
	ofTypes, ofFields map[string]func(*node)
	definitions       properties
	// used are the rules that were met.
	used map[string]bool
}

// expression is what a value of another type than text may be instead: a text
// that is nothing but one expression.
const expression = `^\$\{\{[\s\S]*\}\}$`

// orExpression lets a value be an expression.
func orExpression(n *node) *node {
	kind := n.Type.(string)
	n.Type = []string{kind, "string"}
	n.Pattern = expression
	n.PatternError = "write " + articles[kind] + ", or an expression: ${{ … }}"
	return n
}

// articles name values of a type to people.
var articles = map[string]string{
	"boolean": "true or false", "integer": "a whole number", "number": "a number", "object": "a mapping", "array": "a list",
}

// object is the schema of a struct.
func (g *generator) object(t reflect.Type) (*node, error) {
	n := &node{Type: "object", Description: g.about(t)}
	if !g.open {
		n.AdditionalProperties = false
	}
	for f := range t.Fields() {
		name := jsonName(f)
		if name == "" {
			continue
		}
		p, err := g.field(t, f)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t.Name(), f.Name, err)
		}
		n.Properties = append(n.Properties, property{name, p})
		if !strings.Contains(f.Tag.Get("json"), ",omit") {
			n.Required = append(n.Required, name)
		}
	}
	g.apply(g.ofTypes, t.Name(), n)
	if !g.plain(t) {
		orExpression(n)
	}
	return n, nil
}

// literal tells the types of a plan whose fields are no expressions: the plan
// itself, and variables, which are known before any expression is.
func literal(t reflect.Type) bool {
	return t == reflect.TypeFor[plan.Plan]() || t == reflect.TypeFor[plan.Var]()
}

// field is the schema of a field, with its description.
func (g *generator) field(owner reflect.Type, f reflect.StructField) (*node, error) {
	n, err := g.value(f.Type, g.plain(owner))
	if err != nil {
		return nil, err
	}
	about := g.comments.field(owner, f)
	if about == "" {
		return nil, fmt.Errorf("the field has no comment, nor has its type")
	}
	if n.Ref != "" { // what stands beside a $ref is passed over
		n = &node{AllOf: []*node{n}}
	}
	n.Description = about
	n.Default = defaultIn(about, n)
	g.apply(g.ofFields, owner.Name()+"."+jsonName(f), n)
	return n, nil
}

// value is the schema of a type's values.
func (g *generator) value(t reflect.Type, plain bool) (*node, error) {
	maybe := orExpression
	if plain {
		maybe = func(n *node) *node { return n }
	}
	if t == reflect.TypeFor[time.Time]() {
		return &node{Type: "string", Format: "date-time"}, nil
	}
	if t == reflect.TypeFor[fleet.Limit]() {
		return limit(), nil
	}
	if short, ok := shortForms[t]; ok {
		var long *node
		var err error
		if t.Kind() == reflect.Struct {
			long, err = g.refer(t)
		}
		return short(long), err
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.value(t.Elem(), plain)
	case reflect.Interface:
		return &node{}, nil
	case reflect.Struct:
		return g.refer(t)
	case reflect.String:
		if values := g.values[t.Name()]; t.Name() != "string" && len(values) > 0 {
			return oneOf(values, plain), nil
		}
		return &node{Type: "string"}, nil
	case reflect.Slice:
		items, err := g.value(t.Elem(), plain)
		return maybe(&node{Type: "array", Items: items}), err
	case reflect.Map:
		n := &node{Type: "object"}
		values, err := g.value(t.Elem(), plain)
		if t.Elem().Kind() != reflect.Interface {
			n.AdditionalProperties = values
		}
		return maybe(n), err
	default:
		if kind, ok := kinds[t.Kind()]; ok {
			return maybe(&node{Type: kind}), nil
		}
		return nil, fmt.Errorf("the type %s is not known here", t)
	}
}

// kinds are the types of plain values.
var kinds = map[reflect.Kind]string{reflect.Bool: "boolean", reflect.Int: "integer", reflect.Float64: "number"}

// refer puts a struct among the definitions, once, and refers to it.
func (g *generator) refer(t reflect.Type) (*node, error) {
	ref := &node{Ref: "#/definitions/" + t.Name()}
	if slices.ContainsFunc(g.definitions, func(p property) bool { return p.name == t.Name() }) {
		return ref, nil
	}
	n, err := g.object(t)
	g.definitions = append(g.definitions, property{t.Name(), n})
	return ref, err
}

// oneOf is a text that takes some values only, or one that has an expression.
func oneOf(values []value, plain bool) *node {
	names := &node{}
	described := false
	for _, v := range values {
		names.Enum = append(names.Enum, v.text)
		names.EnumDescriptions = append(names.EnumDescriptions, v.about)
		described = described || v.about != ""
	}
	if !described {
		names.EnumDescriptions = nil
	}
	if plain {
		names.Type = "string"
		return names
	}
	return &node{Type: "string", AnyOf: []*node{names, {Pattern: `\$\{\{`}}}
}

var defaultWord = regexp.MustCompile(`\(default ([^\s();]+)\)`)

// defaultIn is the default that a description names, as a value of the schema's
// type; nil when it names none that can be written down.
func defaultIn(about string, n *node) any {
	m := defaultWord.FindStringSubmatch(about)
	if m == nil {
		return nil
	}
	kind, _ := n.Type.(string)
	if both, ok := n.Type.([]string); ok {
		kind = both[0]
	}
	switch kind {
	case "boolean":
		if v, err := strconv.ParseBool(m[1]); err == nil {
			return v
		}
	case "integer", "number":
		if v, err := strconv.ParseFloat(m[1], 64); err == nil {
			return v
		}
	case "string":
		for _, names := range n.AnyOf {
			if slices.Contains(names.Enum, m[1]) {
				return m[1]
			}
		}
		if n.Pattern == durations && regexp.MustCompile(durations).MatchString(m[1]) {
			return m[1]
		}
	}
	return nil
}

// apply applies the rule of a name, if there is one.
func (g *generator) apply(rules map[string]func(*node), name string, n *node) {
	if rule, ok := rules[name]; ok {
		g.used[name] = true
		rule(n)
	}
}

// unused refuses rules for what is not there any more.
func (g *generator) unused() error {
	for _, rules := range []map[string]func(*node){g.ofTypes, g.ofFields} {
		for name := range rules {
			if !g.used[name] {
				return fmt.Errorf("there is a rule for %s, which there is not", name)
			}
		}
	}
	return nil
}
