package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A page is the part of the documentation that a schema knows: a table of fields
// for each type, in the order in which a reader of a file meets them.
type page struct {
	out strings.Builder
	// of finds the definition that a reference names.
	of map[string]*node
	// places are where in a file a type stands.
	places map[string][]string
	order  []string
	// defaults says that fields have one.
	defaults bool
}

// planPage is the page of all fields of a plan.
func planPage(from sources) ([]byte, error) {
	root, err := planSchema(from)
	if err != nil {
		return nil, err
	}
	p := newPage(root, true)
	p.out.WriteString(`# Fields of a plan

This page is made from the types that kplan reads a plan into. It has every field. What the fields do together is told in [the plan file](plan.md).

A field takes an [expression](plan.md#expressions) too, except those of ` + "`vars`" + ` and the names of steps, variables and clusters. A field without a default is left out when you do not write it.
Durations are a number with its unit: ` + "`90s`, `10m`, `1h30m`" + `.
`)
	p.section("Plan", "the file itself", root)
	p.definitions()
	return []byte(p.out.String()), nil
}

// eventPage is the page of all types and fields of events.
func eventPage(from sources) ([]byte, error) {
	root, err := eventSchema(from)
	if err != nil {
		return nil, err
	}
	return pageOfEvents(root, fieldsOf, `# Types and fields of events

This page is made from the types that kplan writes events from. What the events mean together is told in [events](events.md).
`), nil
}

// pageOfEvents has a table of the types of events, and one of the fields of each Go type.
func pageOfEvents(root *node, has map[string][]string, head string) []byte {
	p := newPage(root, false)
	p.out.WriteString(head + `
## Types

| type | tells | has in any case |
|---|---|---|
`)
	i := slices.IndexFunc(root.Properties, func(p property) bool { return p.name == "type" })
	kinds := root.Properties[i].node
	for i, name := range kinds.Enum {
		var fields []string
		for _, f := range has[name] {
			fields = append(fields, "`"+f+"`")
		}
		fmt.Fprintf(&p.out, "| `%s` | %s | %s |\n", name, prose(kinds.EnumDescriptions[i]), strings.Join(fields, ", "))
	}
	kinds.EnumDescriptions, kinds.Enum = nil, nil // they have their table
	p.section("Event", "each line", root)
	p.definitions()
	return []byte(p.out.String())
}

func newPage(root *node, defaults bool) *page {
	p := &page{of: map[string]*node{}, places: map[string][]string{}, defaults: defaults}
	for _, d := range root.Definitions {
		p.of[d.name] = d.node
	}
	p.visit(root, "")
	return p
}

// visit notes where types stand, those of a type after itself.
func (p *page) visit(n *node, path string) {
	var deeper []func()
	for _, f := range n.Properties {
		at := strings.TrimPrefix(path+"."+f.name, ".")
		for _, r := range references(f.node) {
			at := at + r.suffix
			if !slices.Contains(p.places[r.name], at) {
				p.places[r.name] = append(p.places[r.name], at)
			}
			if !slices.Contains(p.order, r.name) {
				p.order = append(p.order, r.name)
				deeper = append(deeper, func() { p.visit(p.of[r.name], at) })
			}
		}
	}
	for _, visit := range deeper {
		visit()
	}
}

// reference is a type that a field leads to, by way of a list or a mapping.
type reference struct{ name, suffix string }

func references(n *node) []reference {
	var all []reference
	if n.Ref != "" {
		all = append(all, reference{name: strings.TrimPrefix(n.Ref, "#/definitions/")})
	}
	for _, part := range slices.Concat(n.AllOf, n.AnyOf) {
		all = append(all, references(part)...)
	}
	if n.Items != nil {
		for _, r := range references(n.Items) {
			all = append(all, reference{r.name, "[]" + r.suffix})
		}
	}
	if values, ok := n.AdditionalProperties.(*node); ok && values != nil {
		for _, r := range references(values) {
			all = append(all, reference{r.name, ".NAME" + r.suffix})
		}
	}
	return all
}

func (p *page) definitions() {
	for _, name := range p.order {
		var at []string
		for _, place := range p.places[name] {
			at = append(at, "`"+place+"`")
		}
		p.section(name, strings.Join(at, ", "), p.of[name])
	}
}

// section writes the table of a type.
func (p *page) section(name, at string, n *node) {
	fmt.Fprintf(&p.out, "\n## %s\n\n%s In a file: %s.\n", name, prose(n.Description), at)
	if n.OneOf != nil {
		var fields []string
		for _, one := range n.OneOf {
			fields = append(fields, "`"+one.Required[0]+"`")
		}
		fmt.Fprintf(&p.out, "It has exactly one of %s.\n", strings.Join(fields, ", "))
	}
	if len(n.Properties) == 0 {
		return
	}
	if p.defaults {
		p.out.WriteString("\n| field | type | default | meaning |\n|---|---|---|---|\n")
	} else {
		p.out.WriteString("\n| field | type | meaning |\n|---|---|---|\n")
	}
	for _, f := range n.Properties {
		kind := kindOf(f.node)
		if slices.Contains(n.Required, f.name) {
			kind += ", required"
		}
		about, byDefault := p.meaning(f.node)
		if p.defaults {
			kind += " | " + byDefault
		}
		fmt.Fprintf(&p.out, "| `%s` | %s | %s |\n", f.name, kind, about)
	}
}

var defaultText = regexp.MustCompile(` ?\(default:? ((?:"[^"]*"|[^()"])+)\)`)

// meaning is what a field is for, and its default.
func (p *page) meaning(n *node) (about, byDefault string) {
	about = n.Description
	var all []string
	for _, m := range defaultText.FindAllStringSubmatch(about, -1) {
		text := prose(m[1])
		if !strings.Contains(text, " ") {
			text = "`" + m[1] + "`"
		}
		all = append(all, text)
	}
	if len(all) < 2 { // of several each stands where it holds
		about = defaultText.ReplaceAllString(about, "")
	}
	if n.Const != "" {
		return prose(about), "`" + n.Const + "`, which must be there"
	}
	if len(all) == 0 && strings.HasPrefix(kindOf(n), "true or false") {
		all = []string{"`false`"}
	}
	about = prose(about)
	for _, v := range values(n) {
		if v.about != "" {
			about += "<br>`" + v.text + "`: " + prose(v.about)
		}
	}
	return about, strings.Join(all, "; ")
}

// values are those that a text is limited to.
func values(n *node) []value {
	var all []value
	for i, text := range n.Enum {
		v := value{text: text}
		if i < len(n.EnumDescriptions) {
			v.about = n.EnumDescriptions[i]
		}
		all = append(all, v)
	}
	for _, part := range n.AnyOf {
		if part.Type != "object" && part.Type != "array" {
			all = append(all, values(part)...)
		}
	}
	if n.Items != nil {
		all = append(all, values(n.Items)...)
	}
	return all
}

// names of the types of values, as people say them.
var kindNames = map[string]string{
	"string": "text", "boolean": "true or false", "integer": "whole number", "number": "number", "array": "list", "object": "mapping",
}

// kindOf is the type of a field in words; other types are links.
func kindOf(n *node) string {
	if n.Ref != "" {
		name := strings.TrimPrefix(n.Ref, "#/definitions/")
		return "[" + name + "](#" + strings.ToLower(name) + ")"
	}
	if n.Pattern == durations {
		return "duration"
	}
	if n.Format == "date-time" {
		return "time"
	}
	if n.Const != "" {
		return "text"
	}
	for _, part := range n.AllOf {
		if part.Ref != "" {
			return kindOf(part)
		}
	}
	if all := values(n); len(all) > 0 && n.Items == nil {
		var texts []string
		for _, v := range all {
			texts = append(texts, "`"+v.text+"`")
		}
		return strings.Join(texts, ", ")
	}
	kind, _ := n.Type.(string)
	if both, ok := n.Type.([]string); ok {
		kind = both[0]
	}
	if kind == "" && n.AnyOf != nil {
		var kinds []string
		for _, part := range n.AnyOf {
			if k := kindOf(part); !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
		return strings.Join(kinds, ", or ")
	}
	switch values, ok := n.AdditionalProperties.(*node); {
	case kind == "":
		return "any value"
	case kind == "array" && n.Items != nil:
		return "list of: " + kindOf(n.Items)
	case kind == "object" && ok:
		return "mapping of names to: " + kindOf(values)
	}
	return kindNames[kind]
}

var (
	expressions = regexp.MustCompile(`\$\{\{[^}]*\}\}`)
	markup      = strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;")
)

// prose makes a comment's words a cell of a table: an expression is code, so that
// no renderer takes it for its own.
func prose(text string) string {
	return expressions.ReplaceAllString(markup.Replace(text), "`$0`")
}
