package foreign

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/plan/document"
)

// Fields are those of a mapping that is being written, in the order in which they were
// set. The zero value is empty.
type Fields struct{ node *yaml.Node }

// Set sets a field to a string, bool, int, []string, map[string]string, *Fields or
// *yaml.Node. What is empty is left out: "", nil, a list or mapping without items; false
// and 0 are not. A ${{ in a text is written so that it stays text; see Expr for
// expressions.
func (f *Fields) Set(name string, value any) {
	var n *yaml.Node
	switch value := value.(type) {
	case string:
		if value == "" {
			return
		}
		n = text(value)
	case bool:
		n = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(value)}
	case int:
		n = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: fmt.Sprint(value)}
	case []string:
		n = &yaml.Node{Kind: yaml.SequenceNode}
		for _, s := range value {
			n.Content = append(n.Content, text(s))
		}
		if len(value) < 4 && len(strings.Join(value, ", ")) < 70 {
			n.Style = yaml.FlowStyle
		}
	case map[string]string:
		var m Fields
		for _, k := range slices.Sorted(maps.Keys(value)) {
			m.put(k, text(value[k]))
		}
		n = m.node
	case *Fields:
		n = value.node
	case *yaml.Node:
		n = value
	default:
		panic(fmt.Sprintf("foreign: a field of the type %T", value)) // a fault of this program
	}
	if n != nil && !isEmpty(n) {
		f.put(name, n)
	}
}

// Keep sets a field to a value as it is, also to an empty one.
func (f *Fields) Keep(name string, n *yaml.Node) { f.put(name, n) }

func (f *Fields) put(name string, n *yaml.Node) {
	m := f.Node()
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == name {
			m.Content[i+1] = n
			return
		}
	}
	m.Content = append(m.Content, text(name), n)
}

// Value is the value of a field; nil when it is not set.
func (f *Fields) Value(name string) *yaml.Node {
	if f.node == nil {
		return nil
	}
	for i := 0; i+1 < len(f.node.Content); i += 2 {
		if f.node.Content[i].Value == name {
			return f.node.Content[i+1]
		}
	}
	return nil
}

// Comment puts a comment behind a field that is set.
func (f *Fields) Comment(name, words string) {
	if n := f.Value(name); n != nil {
		if n.Kind == yaml.ScalarNode {
			n.LineComment = comment([]string{words})
			return
		}
		for i, k := range f.node.Content {
			if i%2 == 0 && k.Value == name {
				k.HeadComment = comment([]string{words})
			}
		}
	}
}

// Len is how many fields are set.
func (f *Fields) Len() int {
	if f.node == nil {
		return 0
	}
	return len(f.node.Content) / 2
}

// Node is the mapping, which may be empty.
func (f *Fields) Node() *yaml.Node {
	if f.node == nil {
		f.node = &yaml.Node{Kind: yaml.MappingNode}
	}
	return f.node
}

// text is a scalar which is text, whatever it looks like.
func text(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	if n.Tag == "!!binary" { // no text; a parser would not take it
		n.SetString(strings.ToValidUTF8(s, "?"))
	}
	if document.IsText(n) {
		return n
	}
	n.Style = yaml.DoubleQuotedStyle
	return n
}

// comment is a comment of some lines; "" without words.
func comment(lines []string) string {
	var all []string
	for _, l := range lines {
		if l = plain(l); l != "" {
			all = append(all, "# "+l)
		}
	}
	return strings.Join(all, "\n")
}

// Expr returns a text that is the expression ${{ code }} when it is written into a plan,
// alone or as a part of a longer one.
func Expr(code string) string { return string(exprBegin) + code + string(exprEnd) }

// HasExpr reports whether a text has an expression of Expr.
func HasExpr(s string) bool { return strings.ContainsRune(s, exprBegin) }

// BeginsWithExpr reports whether a text begins with an expression of Expr.
func BeginsWithExpr(s string) bool { return strings.HasPrefix(s, string(exprBegin)) }

// exprBegin and exprEnd stand around an expression in a text until it is written. No
// file has them: they are private characters of Unicode.
const exprBegin, exprEnd = '\uE0E0', '\uE0E1'

// Clean takes out of a text that was read what Expr puts into one.
func Clean(s string) string {
	return strings.NewReplacer(string(exprBegin), "?", string(exprEnd), "?").Replace(s)
}

// written is a text with its expressions as people know them.
func written(s string) string {
	return strings.NewReplacer(string(exprBegin), "${{ ", string(exprEnd), " }}").Replace(s)
}

// planText is a text as a plan has it: what looks like an expression and is none is
// escaped.
func planText(s string) string { return written(strings.ReplaceAll(s, "${{", "$${{")) }

// encode writes a mapping as YAML.
func encode(w io.Writer, n *yaml.Node) error {
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return err
	}
	return e.Close()
}

// finished copies a node with its texts as they are written.
func finished(n *yaml.Node, f func(string) string) *yaml.Node {
	c := *n
	c.Content = nil
	c.Line, c.Column = 0, 0
	if n.Kind == yaml.ScalarNode {
		c.Value = f(n.Value)
	}
	if n.Kind == yaml.MappingNode || n.Kind == yaml.SequenceNode {
		c.Tag = ""
	}
	for _, x := range n.Content {
		c.Content = append(c.Content, finished(x, f))
	}
	return &c
}

// TextNode is a scalar which is text, whatever it looks like; it may be empty.
func TextNode(s string) *yaml.Node { return text(s) }

// OnlyExpr returns the code of a text that is one expression of Expr and nothing else.
func OnlyExpr(s string) (code string, ok bool) {
	code, ok = strings.CutPrefix(s, string(exprBegin))
	if !ok {
		return "", false
	}
	code, ok = strings.CutSuffix(code, string(exprEnd))
	return code, ok && !strings.ContainsRune(code, exprBegin)
}

// Replace puts what f returns in the place of each expression of Expr in a text.
func Replace(s string, f func(code string) string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, string(exprBegin))
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		code, after, ok := strings.Cut(rest, string(exprEnd))
		if !ok {
			return b.String()
		}
		b.WriteString(f(code))
		s = after
	}
}

// Written is a text with its expressions as people know them: ${{ code }}.
func Written(s string) string { return written(s) }

// List is a list of values.
func List(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Content: items}
}
