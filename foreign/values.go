package foreign

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/plan/lint/secret"
)

// Values takes a value as values of a chart. What looks like a secret, as package lint
// sees it, is not copied: a sensitive variable of the plan, named after the owner and the
// path, stands for it.
func (p *Plan) Values(owner string, v *Value) *yaml.Node {
	n := v.Node()
	if n == nil {
		return nil
	}
	return p.Conceal(owner, n, v)
}

// Conceal is Values for nodes that were made of a value: at is where they come from.
func (p *Plan) Conceal(owner string, n *yaml.Node, at *Value) *yaml.Node {
	concealer{plan: p, owner: owner, at: at}.walk(n, nil, "")
	return n
}

// ConcealAll is Conceal for values of which each is a secret.
func (p *Plan) ConcealAll(owner string, n *yaml.Node, at *Value) *yaml.Node {
	concealer{plan: p, owner: owner, at: at, all: true}.walk(n, nil, "")
	return n
}

// Inline are values that stand in a text, as YAML. It takes the text. It is nil for one
// that is empty, and not ok for one that is no mapping. All of it stands where the text
// does.
func Inline(v *Value) (values *yaml.Node, ok bool) {
	text := v.Text()
	docs, err := Read(File{Data: []byte(text)}, Options{}, &Report{})
	switch {
	case err != nil || len(docs) > 1 || len(docs) == 1 && !docs[0].IsMap():
		return nil, false
	case len(docs) == 0:
		return nil, true
	}
	values = docs[0].Node()
	stand(values, v.node)
	return values, true
}

// stand puts nodes where another one stands.
func stand(n, at *yaml.Node) {
	n.Line, n.Column = at.Line, at.Column
	for _, x := range n.Content {
		stand(x, at)
	}
}

// Scalar is a text that stands where a value does.
func Scalar(v *Value, s string) *yaml.Node {
	n := text(s)
	n.Line, n.Column = v.node.Line, v.node.Column
	return n
}

// concealer puts variables in the place of secrets.
type concealer struct {
	plan  *Plan
	owner string
	at    *Value
	all   bool
}

func (w concealer) walk(n *yaml.Node, path document.Path, name string) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			named := key
			if key == "value" { // {name: PASSWORD, value: …} is a variable of a container
				named = cmp.Or(sibling(n, "name"), key)
			}
			w.walk(n.Content[i+1], path.Key(key), named)
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			w.walk(item, path.Index(i), name)
		}
	case yaml.ScalarNode:
		if !isNull(n) && !HasExpr(n.Value) && (w.all || isSecret(name, n)) {
			w.conceal(n, path)
		}
	case yaml.DocumentNode, yaml.AliasNode: // Read leaves none
	}
}

// sibling is the text of a field.
func sibling(n *yaml.Node, key string) string {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key && n.Content[i+1].Kind == yaml.ScalarNode {
			return n.Content[i+1].Value
		}
	}
	return ""
}

// lookedUp matches what vals, a library that helmfile and others use, replaces by a secret
// of somewhere else.
var lookedUp = regexp.MustCompile(`\bref\+[a-z0-9]+://|\bsecretref\+[a-z0-9]+://`)

// IsLookedUp reports whether a text has references that vals replaces.
func IsLookedUp(text string) bool { return lookedUp.MatchString(text) }

// isSecret reports whether a scalar with a name is a secret, as the rule secret-in-values
// of package lint has it, or a reference to one.
func isSecret(name string, n *yaml.Node) bool {
	if secret.In(n.Value) != "" || IsLookedUp(n.Value) {
		return true
	}
	return n.Value != "" && n.ShortTag() != "!!bool" && secret.Named(name) && !secret.IsReference(n.Value)
}

// HasSecret reports whether a value with a name is a secret, or has one.
func HasSecret(name string, n *yaml.Node) bool {
	if n.Kind == yaml.ScalarNode {
		return !isNull(n) && !HasExpr(n.Value) && isSecret(name, n)
	}
	for i, x := range n.Content {
		inner := name
		if n.Kind == yaml.MappingNode {
			if i%2 == 0 {
				continue
			}
			inner = n.Content[i-1].Value
		}
		if HasSecret(inner, x) {
			return true
		}
	}
	return false
}

func (w concealer) conceal(n *yaml.Node, path document.Path) {
	var names []string
	for _, e := range path {
		if s, ok := e.(string); ok {
			names = append(names, s)
		}
	}
	base := cmp.Or(Identifier(w.owner+"_"+strings.Join(names, "_")), "secret")
	about := path.String() + " of " + w.owner
	if IsLookedUp(n.Value) {
		about += ", which was " + document.Cut(n.Value, 200)
	}
	name := w.plan.Secret(base, about)
	place := w.at.Place()
	if n.Line > 0 { // a node that was made stands nowhere
		place = w.at.doc.place(n, append(slices.Clone(w.at.path), path...))
	}
	w.at.doc.report.Add(concealed(place, name))
	*n = *text(Expr("vars." + name))
}

// concealed says that a variable stands for a value.
func concealed(at document.Place, name string) finding.Finding {
	return finding.Finding{
		Pos: at.Pos, Path: at.Path, Severity: finding.Warning, Rule: Secret,
		Message: "the value looks like a secret and is not copied: the variable " + name + " stands for it",
		Hint:    "give it by --set or a var file that SOPS encrypts, or let env or secret of the variable say where it is",
	}
}

// SecretFinding says that a variable stands for a value at a place.
func SecretFinding(at document.Place, name string) finding.Finding { return concealed(at, name) }

// SecretAt says that a variable stands for a value.
func SecretAt(v *Value, name string) finding.Finding { return concealed(v.Place(), name) }

// Secret declares a sensitive variable with a name like that, and returns its name.
func (p *Plan) Secret(base, description string) string {
	name := base
	for n := 2; p.Vars.Value(name) != nil; n++ {
		name = base + "_" + strconv.Itoa(n)
	}
	f := p.Var(name, description)
	f.Set("sensitive", true)
	return name
}

// Merge merges values over others, as Helm does: mappings by their fields, all else as a
// whole.
func Merge(under, over *yaml.Node) *yaml.Node {
	if under == nil || over == nil || under.Kind != yaml.MappingNode || over.Kind != yaml.MappingNode {
		if over == nil {
			return under
		}
		return over
	}
	merged := &Fields{node: &yaml.Node{Kind: yaml.MappingNode, Style: under.Style, Content: slices.Clone(under.Content)}}
	for i := 0; i+1 < len(over.Content); i += 2 {
		k, v := over.Content[i], over.Content[i+1]
		merged.put(k.Value, Merge(merged.Value(k.Value), v))
	}
	return merged.node
}

// Text writes values as a file: one whose expressions are evaluated, or one that is sent
// as it is.
func Text(n *yaml.Node, evaluated bool) ([]byte, error) {
	var b bytes.Buffer
	f := written
	if evaluated {
		f = planText
	}
	if err := encode(&b, finished(n, f)); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
