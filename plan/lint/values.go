package lint

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
)

// root is where values begin that are not a plan's own fields: the default of a
// variable, the values of a chart, an object.
type root struct {
	text *document.Source
	node *yamlv3.Node
	at   []any
	// name is the name that the value has: a variable's.
	name string
	// object says that it is an object of Kubernetes.
	object bool
}

// eachManifest calls f for each object that is written in a file or in the plan,
// once: for_each sends one many times.
func (l *linter) eachManifest(f func(s *plan.Step, o Object, n *yamlv3.Node)) {
	seen := map[*yamlv3.Node]bool{}
	l.each(func(s *plan.Step) {
		for _, o := range l.Objects[s.Name] {
			if o.Text == nil {
				continue
			}
			if n := o.Text.Find(o.At...); n != nil && !seen[n] {
				seen[n] = true
				f(s, o, n)
			}
		}
	})
}

// manifests are the objects in files of apply steps.
func (l *linter) manifests() []root {
	var roots []root
	l.eachManifest(func(s *plan.Step, o Object, n *yamlv3.Node) {
		if o.Text != s.Origin.Text {
			roots = append(roots, root{text: o.Text, node: n, at: o.At, object: true})
		}
	})
	return roots
}

// ours is an expression that reads something of a plan: files have those of other
// tools, too.
var ours = regexp.MustCompile(`\$\{\{[^}]*?\b(vars|each|clusters|plan|steps)\s*[.\[]`)

// eachUnevaluated calls f for each text with an expression in files that are sent as they are.
func (l *linter) eachUnevaluated(f func(r root, n *yamlv3.Node, at []any)) {
	for _, r := range slices.Concat(l.manifests(), l.filed) {
		if l.evaluated[r.text.File()] {
			continue
		}
		visit(r.node, "", r.at, func(n *yamlv3.Node, _ string, at []any, _ bool) {
			if ours.MatchString(n.Value) {
				f(r, n, at)
			}
		})
	}
}

func checkFiled(p *pass) {
	p.eachUnevaluated(func(r root, n *yamlv3.Node, at []any) {
		hint := "write evaluate: true beside files, or put the object under apply.objects of the plan"
		if !r.object {
			hint = "write evaluate: true beside values_files, or put the value under values of the step"
		}
		p.add(finding.Error, nil, location{Place: r.text.PlaceOf(n, at...), text: r.text}, hint, "files are sent as they are: the expression is not evaluated")
	})
}

// rootsOf are the places of a plan where values begin.
func rootsOf(t *document.Source) []root {
	var roots []root
	pairs(t.Root(), func(key, value *yamlv3.Node) {
		switch key.Value {
		case "vars":
			pairs(value, func(name, v *yamlv3.Node) {
				if d := get(v, "default"); d != nil {
					roots = append(roots, root{text: t, node: d, name: name.Value, at: []any{"vars", name.Value, "default"}})
				}
			})
		case "steps", "finally":
			for i, s := range items(value) {
				at := []any{key.Value, i}
				for _, path := range [][]any{{"helm", "values"}, {"include", "vars"}, {"for_each"}} {
					if n := get(s, path...); n != nil {
						roots = append(roots, root{text: t, node: n, at: slices.Concat(at, path)})
					}
				}
				for j, o := range items(get(s, "apply", "objects")) {
					roots = append(roots, root{text: t, node: o, at: slices.Concat(at, []any{"apply", "objects", j}), object: true})
				}
			}
		}
	})
	return roots
}

// pairs calls f for each field of a mapping.
func pairs(n *yamlv3.Node, f func(key, value *yamlv3.Node)) {
	if n == nil || n.Kind != yamlv3.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		f(n.Content[i], n.Content[i+1])
	}
}

func items(n *yamlv3.Node) []*yamlv3.Node {
	if n == nil || n.Kind != yamlv3.SequenceNode {
		return nil
	}
	return n.Content
}

// get returns the value at a path of fields; nil when there is none.
func get(n *yamlv3.Node, fields ...any) *yamlv3.Node {
	for _, name := range fields {
		var found *yamlv3.Node
		pairs(n, func(key, value *yamlv3.Node) {
			if key.Value == name {
				found = value
			}
		})
		n = found
	}
	return n
}

// visit calls f for every scalar below a node, with the key that it stands under,
// or the one of its list, and its path. f is called for keys too, with isKey.
func visit(n *yamlv3.Node, name string, at []any, f func(n *yamlv3.Node, name string, at []any, isKey bool)) {
	switch n.Kind {
	case yamlv3.ScalarNode:
		f(n, name, at, false)
	case yamlv3.MappingNode:
		pairs(n, func(key, value *yamlv3.Node) {
			at := append(slices.Clip(at), key.Value)
			f(key, key.Value, at, true)
			visit(value, key.Value, at, f)
		})
	case yamlv3.SequenceNode:
		for i, item := range n.Content {
			visit(item, name, append(slices.Clip(at), i), f)
		}
	default: // an alias' value is looked at where its anchor is
	}
}

func checkUnusedVars(p *pass) {
	// literal are variables that files would read, if expressions were evaluated there.
	literal := map[string]document.Pos{}
	p.eachUnevaluated(func(r root, n *yamlv3.Node, at []any) {
		used := map[string]bool{}
		reads(n.Value, used)
		for name := range used {
			if _, known := literal[name]; !known {
				literal[name] = r.text.PlaceOf(n, at...).Pos
			}
		}
	})
	filed, anyOf := map[string]bool{}, false // what files read whose expressions are evaluated
	for _, r := range slices.Concat(p.manifests(), p.filed) {
		if p.evaluated[r.text.File()] {
			visit(r.node, "", r.at, func(n *yamlv3.Node, _ string, _ []any, _ bool) { anyOf = reads(n.Value, filed) || anyOf })
		}
	}
	for _, t := range p.Plan.Texts {
		declared := get(t.Root(), "vars")
		if declared == nil {
			continue
		}
		used, all := maps.Clone(filed), anyOf
		visit(t.Root(), "", nil, func(n *yamlv3.Node, _ string, _ []any, _ bool) {
			all = reads(n.Value, used) || all
		})
		pairs(declared, func(key, _ *yamlv3.Node) {
			if !all && !used[key.Value] {
				hint := "use ${{ vars." + key.Value + " }}, or remove it"
				if pos, ok := literal[key.Value]; ok {
					hint = "the expression at " + pos.String() + " is not evaluated: without evaluate: true files are sent as they are"
				}
				p.add(finding.Warning, nil, location{Place: t.PlaceOf(key, "vars", key.Value), text: t}, hint,
					"nothing reads the variable %q", key.Value)
			}
		})
	}
}

// varUse is a use of the variables in an expression: of the one in the first or
// second group, else of any.
var varUse = regexp.MustCompile(`(?:^|[^-.\w])vars\b(?:\s*\.\s*([A-Za-z_]\w*)|\s*\[\s*["']([^"']+)["']\s*\])?`)

// reads notes the variables that the expressions of a text read; all is true when
// that may be any.
func reads(text string, used map[string]bool) (all bool) {
	for {
		_, rest, found := strings.Cut(text, "${{")
		if !found {
			return all
		}
		expr, after, _ := strings.Cut(rest, "}}")
		for _, m := range varUse.FindAllStringSubmatch(expr, -1) {
			switch {
			case m[1] != "":
				used[m[1]] = true
			case m[2] != "":
				used[m[2]] = true
			default:
				all = true
			}
		}
		text = after
	}
}
