package plan

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// maxNodes bounds the values of a plan once aliases and variables are put in: a
// few lines of aliases of aliases would otherwise fill the memory.
const maxNodes = 300_000

// maxOddKeys bounds the keys such as 0x10 and 1.5, each of which costs time.
const maxOddKeys = 1000

// pos gives where a node starts.
func (s *source) pos(n *yamlv3.Node) Pos { return Pos{s.file, n.Line, n.Column} }

// checkNodes looks for what the YAML syntax allows and a plan does not:
// duplicate and odd keys, merge keys, foreign tags, aliases that grow too much.
// When ok is false the values are not to be read at all.
func (s *source) checkNodes(f *faults) (duplicates, ok bool) {
	w := nodeWalk{s: s, f: f, sizes: map[*yamlv3.Node]int{}, ok: true}
	if w.size(s.root) > maxNodes && w.ok {
		f.as(CodeSyntax).add(s, Pos{File: s.file}, "", "move values to values_files, and objects to apply.files", "the file has more than %d values", maxNodes)
		w.ok = false
	}
	if w.odd > maxOddKeys {
		f.as(CodeSyntax).add(s, Pos{File: s.file}, "", "quote them", "the file has more than %d keys that are no text", maxOddKeys)
		w.ok = false
	}
	return w.duplicates, w.ok
}

// nodeWalk looks at every node once.
type nodeWalk struct {
	s *source
	f *faults
	// sizes are those of nodes with an anchor; -1 while they are being counted.
	sizes          map[*yamlv3.Node]int
	duplicates, ok bool
	// odd counts the keys that take a parser to know their names.
	odd int
}

func (w *nodeWalk) refuse(n *yamlv3.Node, hint, format string, args ...any) {
	w.f.as(CodeSyntax).add(w.s, w.s.pos(n), "", hint, format, args...)
	w.ok = false
}

// size counts the nodes below n with aliases put in, at most a bit over
// maxNodes, and checks them on the way.
func (w *nodeWalk) size(n *yamlv3.Node) int {
	if n.Kind == yamlv3.AliasNode {
		switch size, known := w.sizes[n.Alias]; {
		case !known: // the parser has resolved it, so it stands before this one
			return 1
		case size < 0:
			w.refuse(n, "", "the alias *%s stands inside of what it refers to", n.Value)
			return 1
		default:
			return size
		}
	}
	if n.Anchor != "" {
		w.sizes[n] = -1
	}
	w.checkTag(n)
	if n.Kind == yamlv3.MappingNode {
		w.checkKeys(n)
	}
	total := 1
	for _, c := range n.Content {
		total = min(total+w.size(c), maxNodes+1)
		if total > maxNodes && c.Kind == yamlv3.AliasNode && w.ok {
			w.refuse(c, "write the values out, or move them to values_files", "the file has more than %d values once its aliases are put in", maxNodes)
		}
	}
	if n.Anchor != "" {
		w.sizes[n] = total
	}
	return total
}

var (
	knownTags = []string{"!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq"}
	notFinite = regexp.MustCompile(`^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$`)
)

func (w *nodeWalk) checkTag(n *yamlv3.Node) {
	switch {
	case n.Style&yamlv3.TaggedStyle != 0 && !slices.Contains(knownTags, n.ShortTag()):
		tag := " " + strconv.Quote(n.ShortTag())
		if !w.s.open() {
			tag = ""
		}
		w.refuse(n, "", "the YAML tag%s is not understood", tag)
	case n.Kind == yamlv3.ScalarNode && n.Style == 0 && strings.Contains(n.Value, ".") && notFinite.MatchString(n.Value):
		w.refuse(n, "quote it to mean the text", "%s is not a number that Kubernetes knows", n.Value)
	}
}

// checkKeys reports merge keys, keys that are no text, and keys given twice.
func (w *nodeWalk) checkKeys(n *yamlv3.Node) {
	first := make(map[string]*yamlv3.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind == yamlv3.ScalarNode && k.ShortTag() == "!!merge" {
			w.refuse(k, "write the fields out, or use a variable with ${{ vars.NAME }}", "merge keys (<<) are not understood")
			continue
		}
		if _, simple := simpleKey(k); !simple {
			if w.odd++; w.odd > maxOddKeys {
				continue
			}
		}
		name, ok := keyName(k)
		if !ok {
			w.refuse(k, "quote it", "a key must be text")
			continue
		}
		if was, dup := first[name]; dup {
			w.duplicates = true
			w.f.as(CodeDuplicate).add(w.s, w.s.pos(k), "", "the first one is on line "+strconv.Itoa(was.Line), "the key %q is given twice", name)
			continue
		}
		first[name] = k
	}
}

// yaml11Bool are the plain scalars that are booleans in YAML 1.1.
var yaml11Bool = map[string]string{
	"y": "true", "Y": "true", "yes": "true", "Yes": "true", "YES": "true", "on": "true", "On": "true", "ON": "true",
	"true": "true", "True": "true", "TRUE": "true",
	"n": "false", "N": "false", "no": "false", "No": "false", "NO": "false", "off": "false", "Off": "false", "OFF": "false",
	"false": "false", "False": "false", "FALSE": "false",
}

var decimal = regexp.MustCompile(`^(0|[1-9][0-9]{0,17})$`)

// simpleKey gives the name of a key where that is plain to see; see keyName.
func simpleKey(k *yamlv3.Node) (name string, ok bool) {
	switch {
	case k.Kind != yamlv3.ScalarNode, k.Style&yamlv3.TaggedStyle != 0:
		return "", false
	case k.Style != 0:
		return k.Value, true
	case k.Value == "", k.Value == "~", strings.EqualFold(k.Value, "null"):
		return "", false
	case strings.ContainsAny(k.Value[:1], "-+.0123456789"):
		return k.Value, decimal.MatchString(k.Value)
	}
	if b, isBool := yaml11Bool[k.Value]; isBool {
		return b, true
	}
	return k.Value, true
}

// keyName gives the name of a key as the values have it: on is "true" in YAML
// 1.1, 010 is "8". It is not ok for null, lists, mappings and aliases.
func keyName(k *yamlv3.Node) (name string, ok bool) {
	if name, ok := simpleKey(k); ok || k.Kind != yamlv3.ScalarNode {
		return name, ok
	}
	text := k.Value
	if k.Style&yamlv3.TaggedStyle != 0 {
		text = k.ShortTag() + " " + strconv.Quote(k.Value)
	}
	doc, err := yaml.YAMLToJSON([]byte(text + ": 0"))
	var m map[string]json.RawMessage
	if err != nil || json.Unmarshal(doc, &m) != nil || len(m) != 1 {
		return k.Value, !strings.EqualFold(k.Value, "null") && k.Value != "~" && k.Value != ""
	}
	for name = range m {
	}
	return name, true
}

// node finds the node at a path, and the key that leads to it: nil for the
// items of lists and the root. It goes as deep as the path can be followed.
func (s *source) node(at path) (n, key *yamlv3.Node) {
	n, key, _ = s.find(at)
	return n, key
}

// find is node that tells whether the path could be followed to its end.
func (s *source) find(at path) (n, key *yamlv3.Node, all bool) {
	n = s.tree()
	for _, e := range at {
		if n != nil && n.Kind == yamlv3.AliasNode {
			n = n.Alias
		}
		if n == nil {
			return nil, nil, false
		}
		switch e := e.(type) {
		case string:
			v, k := s.field(n, e)
			if v == nil {
				return n, key, false
			}
			n, key = v, k
		case int:
			if n.Kind != yamlv3.SequenceNode || e >= len(n.Content) {
				return n, key, false
			}
			n, key = n.Content[e], nil
		}
	}
	return n, key, n != nil
}

// field finds the value and the key of a field in a mapping.
func (s *source) field(n *yamlv3.Node, name string) (value, key *yamlv3.Node) {
	if n.Kind != yamlv3.MappingNode {
		return nil, nil
	}
	index, ok := s.fields[n]
	if !ok {
		index = make(map[string]int, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			if got, ok := keyName(n.Content[i]); ok {
				index[got] = i // of duplicates the last one counts
			}
		}
		if len(n.Content) > 100 { // smaller ones are as quickly read again
			if s.fields == nil {
				s.fields = map[*yamlv3.Node]map[string]int{}
			}
			s.fields[n] = index
		}
	}
	i, ok := index[name]
	if !ok && name == "on" { // see plainOn
		i, ok = index["true"]
	}
	if ok {
		return n.Content[i+1], n.Content[i]
	}
	return nil, nil
}

// valuePos gives where the value at a path starts.
func (s *source) valuePos(at path) Pos {
	if n, _ := s.node(at); n != nil {
		return s.pos(n)
	}
	return Pos{File: s.file}
}

// keyPos gives where the key of the field at a path starts, or the value where
// there is no key.
func (s *source) keyPos(at path) Pos {
	n, key := s.node(at)
	switch {
	case key != nil:
		return s.pos(key)
	case n != nil:
		return s.pos(n)
	}
	return Pos{File: s.file}
}

// path leads to a value: strings are names of fields, ints are indices of lists.
type path []any

// key gives the path of a field below p.
func (p path) key(name string) path { return append(slices.Clip(p), name) }

// index gives the path of an item below p.
func (p path) index(i int) path { return append(slices.Clip(p), i) }

// last is the last name of the path.
func (p path) last() string {
	for _, e := range slices.Backward(p) {
		if name, ok := e.(string); ok {
			return name
		}
	}
	return ""
}

// String writes the path as steps[0].helm.chart.
func (p path) String() string {
	var b strings.Builder
	for i, e := range p {
		switch e := e.(type) {
		case string:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(e)
		case int:
			b.WriteString("[" + strconv.Itoa(e) + "]")
		}
	}
	return b.String()
}
