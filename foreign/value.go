package foreign

import (
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/plan/document"
)

// Value is one of a YAML document that was read, of which it is known what was taken.
// What is not taken in the end is lost: see Leftovers. A nil Value is one that is not
// given, and may be asked everything.
type Value struct {
	doc  *doc
	node *yaml.Node
	// key is the key that the value is of; nil for an item of a list.
	key  *yaml.Node
	path document.Path
}

// doc is a document that is being read.
type doc struct {
	source *document.Source
	report *Report
	// taken are the nodes that somebody has read with all that is below, and entered
	// those whose fields are asked for one by one.
	taken, entered map[*yaml.Node]bool
	// column corrects where something stands; see Options.
	column func(line, col int) int
}

// Given reports whether the value is there and not null.
func (v *Value) Given() bool { return v != nil && !isNull(v.node) }

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// Place is where the value stands: the value itself when it is a scalar, else its key.
func (v *Value) Place() document.Place {
	if v == nil {
		return document.Place{}
	}
	n := v.node
	if n.Kind != yaml.ScalarNode && v.key != nil {
		n = v.key
	}
	return v.doc.place(n, v.path)
}

func (d *doc) place(n *yaml.Node, path document.Path) document.Place {
	at := d.source.PlaceOf(n, path...)
	if d.column != nil {
		at.Col = d.column(at.Line, at.Col)
	}
	at.Excerpt = "" // the line may have a secret that nobody knows as one
	return at
}

// Same reports whether two values are the same, whatever the order of their fields.
func (v *Value) Same(other *Value) bool {
	return v == other || v != nil && other != nil && same(v.node, other.node)
}

func same(a, b *yaml.Node) bool {
	if a.Kind != b.Kind || len(a.Content) != len(b.Content) {
		return false
	}
	if a.Kind == yaml.ScalarNode {
		return a.ShortTag() == b.ShortTag() && a.Value == b.Value
	}
	for i, x := range a.Content {
		y := b.Content[i]
		if a.Kind == yaml.MappingNode {
			if i%2 == 0 {
				continue
			}
			if y = fieldOf(b, a.Content[i-1].Value); y == nil {
				return false
			}
		}
		if !same(x, y) {
			return false
		}
	}
	return true
}

// fieldOf is the value of a field; nil when there is none.
func fieldOf(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// Name is the key that the value is of.
func (v *Value) Name() string {
	if v == nil || v.key == nil {
		return ""
	}
	return v.key.Value
}

// Get is the field with a name; nil when there is none. It is not taken by that, but
// the value is no longer lost as a whole.
func (v *Value) Get(names ...string) *Value {
	for _, name := range names {
		v = v.field(name)
	}
	return v
}

func (v *Value) field(name string) *Value {
	if v == nil || v.node.Kind != yaml.MappingNode {
		return nil
	}
	v.doc.entered[v.node] = true
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		if k := v.node.Content[i]; k.Value == name {
			return &Value{v.doc, v.node.Content[i+1], k, v.path.Key(name)}
		}
	}
	return nil
}

// Fields are those of a mapping, in their order; nil for all else.
func (v *Value) Fields() []*Value {
	if v == nil || v.node.Kind != yaml.MappingNode {
		return nil
	}
	v.doc.entered[v.node] = true
	var all []*Value
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		k := v.node.Content[i]
		all = append(all, &Value{v.doc, v.node.Content[i+1], k, v.path.Key(k.Value)})
	}
	return all
}

// Items are those of a list; nil for all else.
func (v *Value) Items() []*Value {
	if v == nil || v.node.Kind != yaml.SequenceNode {
		return nil
	}
	v.doc.entered[v.node] = true
	var all []*Value
	for i, n := range v.node.Content {
		all = append(all, &Value{v.doc, n, nil, v.path.Index(i)})
	}
	return all
}

// IsMap reports whether the value is a map.
func (v *Value) IsMap() bool { return v != nil && v.node.Kind == yaml.MappingNode }

// IsList reports whether the value is a list.
func (v *Value) IsList() bool { return v != nil && v.node.Kind == yaml.SequenceNode }

// IsText reports whether the value is a scalar and not null.
func (v *Value) IsText() bool { return v.Given() && v.node.Kind == yaml.ScalarNode }

// Text takes a scalar as it is written: 1.10 is "1.10". It is "" for all else, which
// stays to be told of.
func (v *Value) Text() string {
	if v == nil || v.node.Kind != yaml.ScalarNode {
		return ""
	}
	v.Take()
	if isNull(v.node) {
		return ""
	}
	return v.node.Value
}

// Peek is Text for a value that is not taken by that.
func (v *Value) Peek() string {
	if v == nil || v.node.Kind != yaml.ScalarNode || isNull(v.node) {
		return ""
	}
	return v.node.Value
}

// Texts takes a list of scalars. An item that is none stays to be told of.
func (v *Value) Texts() []string {
	var all []string
	for _, item := range v.Items() {
		if item.IsText() {
			all = append(all, item.Text())
		}
	}
	return all
}

// Bool takes true or false. It is not ok for all else, which stays to be told of.
func (v *Value) Bool() (is, ok bool) {
	if !v.IsText() || v.node.Style != 0 && v.node.ShortTag() == "!!str" {
		return false, false
	}
	switch strings.ToLower(v.node.Value) {
	case "true", "yes", "on", "y":
		is = true
	case "false", "no", "off", "n":
	default:
		return false, false
	}
	v.Take()
	return is, true
}

// Or takes true or false, and is what is given here for all else.
func (v *Value) Or(otherwise bool) bool {
	if is, ok := v.Bool(); ok {
		return is
	}
	return otherwise
}

// Int takes a whole number. It is not ok for all else, which stays to be told of.
func (v *Value) Int() (n int, ok bool) {
	if !v.IsText() {
		return 0, false
	}
	n, err := strconv.Atoi(v.node.Value)
	if err != nil {
		return 0, false
	}
	v.Take()
	return n, true
}

// Node takes the value as a whole, as a plan can have it. The nodes are a copy.
func (v *Value) Node() *yaml.Node {
	if v == nil {
		return nil
	}
	v.Take()
	return v.doc.sane(v.node, v.path)
}

// Take takes the value as a whole, for it is known and of no matter to a plan, or
// because it was told of.
func (v *Value) Take() {
	if v != nil {
		v.doc.taken[v.node] = true
	}
}

// Lost says that the value is not in the plan, and takes it.
func (v *Value) Lost(hint, format string, args ...any) {
	if v == nil {
		return
	}
	v.Take()
	v.doc.report.Lost(v.Place(), hint, format, args...)
}

// Changed says that the value means not quite the same in the plan, and takes it.
func (v *Value) Changed(hint, format string, args ...any) {
	if v == nil {
		return
	}
	v.Take()
	v.doc.report.Changed(v.Place(), hint, format, args...)
}

// Loss says what is lost with a field, and what to do about it.
type Loss struct{ What, Hint string }

// Losses are those of fields that are known, by their path with [] for each index, such
// as releases[].hooks, or by ...NAME for a field anywhere.
type Losses map[string]Loss

// of is what is lost with a field.
func (l Losses) of(path document.Path) Loss {
	var b strings.Builder
	for i, e := range path {
		switch e := e.(type) {
		case string:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(e)
		case int:
			b.WriteString("[]")
		}
	}
	if loss, ok := l[b.String()]; ok {
		return loss
	}
	return l["..."+path.Last()]
}

// Leftovers tells of all that is below the value and was not taken, each field once and
// as a whole.
func (v *Value) Leftovers(known Losses) {
	if v == nil || v.doc.taken[v.node] || isNull(v.node) || isEmpty(v.node) {
		return
	}
	if v.doc.entered[v.node] {
		for _, below := range slices.Concat(v.Fields(), v.Items()) {
			below.Leftovers(known)
		}
		return
	}
	loss := known.of(v.path)
	switch {
	case loss.What != "":
	case v.key != nil:
		loss.What = "the field " + v.path.Last() + " is not imported"
	default:
		loss.What = "the item of " + v.path.Last() + " is not imported"
	}
	if loss.Hint == "" {
		loss.Hint = "look what it is for, and whether the plan can do without"
	}
	v.Lost(loss.Hint, "%s", loss.What)
}

// isEmpty reports whether a node is {} or [], which say nothing.
func isEmpty(n *yaml.Node) bool {
	return (n.Kind == yaml.MappingNode || n.Kind == yaml.SequenceNode) && len(n.Content) == 0
}
