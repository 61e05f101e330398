package document

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// MaxNodes bounds the values of a plan once aliases and variables are put in: a
// few lines of aliases of aliases would otherwise fill the memory.
const MaxNodes = 300_000

// maxOddKeys bounds the keys such as 0x10 and 1.5, each of which costs time.
const maxOddKeys = 1000

// checkNodes looks for what the YAML syntax allows and a plan does not:
// duplicate and odd keys, merge keys, foreign tags, aliases that grow too much.
// When ok is false the values are not to be read at all.
func (r *reader) checkNodes() (duplicates, ok bool) {
	w := nodeWalk{reader: r, sizes: map[*yamlv3.Node]int{}, ok: true}
	if w.size(r.root) > MaxNodes && w.ok {
		w.ok = r.refuse(Pos{File: r.file}, "move values to values_files, and objects to apply.files", "the file has more than %d values", MaxNodes)
	}
	if w.odd > maxOddKeys {
		w.ok = r.refuse(Pos{File: r.file}, "quote them", "the file has more than %d keys that are no text", maxOddKeys)
	}
	return w.duplicates, w.ok
}

// nodeWalk looks at every node once.
type nodeWalk struct {
	*reader
	// sizes are those of nodes with an anchor; -1 while they are being counted.
	sizes          map[*yamlv3.Node]int
	duplicates, ok bool
	// odd counts the keys that take a parser to know their names.
	odd int
}

func (w *nodeWalk) refuse(n *yamlv3.Node, hint, format string, args ...any) {
	w.ok = w.reader.refuse(w.Pos(n), hint, format, args...)
}

// size counts the nodes below n with aliases put in, at most a bit over
// MaxNodes, and checks them on the way.
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
		total = min(total+w.size(c), MaxNodes+1)
		if total > MaxNodes && c.Kind == yamlv3.AliasNode && w.ok {
			w.refuse(c, "write the values out, or move them to values_files", "the file has more than %d values once its aliases are put in", MaxNodes)
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
		if !w.open() {
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
		if _, simple := SimpleKey(k); !simple {
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
			w.faults.Add(w.Source, w.Pos(k), Fault{Code: CodeDuplicate, Hint: "the first one is on line " + strconv.Itoa(was.Line)}, "the key %q is given twice", name)
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

// SimpleKey returns the name of a key where that is plain to see; see keyName.
func SimpleKey(k *yamlv3.Node) (name string, ok bool) {
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

// keyName returns the name of a key as the values have it: on is "true" in YAML
// 1.1, 010 is "8". It is not ok for null, lists, mappings and aliases.
func keyName(k *yamlv3.Node) (name string, ok bool) {
	if name, ok := SimpleKey(k); ok || k.Kind != yamlv3.ScalarNode {
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

// IsText reports whether YAML 1.1 reads a node as text.
func IsText(n *yamlv3.Node) bool {
	_, isBool := yaml11Bool[n.Value]
	return n.Kind == yamlv3.ScalarNode && n.ShortTag() == "!!str" && (n.Style != 0 || !isBool)
}
