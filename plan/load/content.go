package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// Bounds of the files that are looked into, in bytes. What is beyond them is left
// to the run: nobody writes such a file by hand.
const (
	maxContent    = 4 << 20
	maxAllContent = 64 << 20
)

// CheckFiles looks into the files that apply steps and values_files name: whether
// they are YAML, and whether each document of an apply step's file is an object
// that can be sent. A file is read once, however many steps name it. The error is a
// Diagnostics with every fault; files that cannot be read are left to Load and to
// the run.
func CheckFiles(p *plan.Plan) error {
	c := contents{plan: p, Faults: &document.Faults{Secrets: p.Sensitive}, seen: map[string]bool{}}
	for i := range p.Steps {
		s := &p.Steps[i]
		if names, _ := evaluated(*s); len(names) > 0 && s.Pending != nil {
			continue // what is not known yet is looked at when the step starts
		}
		if s.Helm != nil {
			for _, name := range plan.Paths(s.Helm.ValuesFiles) {
				c.look(s, s.Path(name), c.values)
			}
		}
		if s.Apply == nil || !s.Apply.Evaluate && c.knows(s.Dir, s.Apply.Files) {
			continue
		}
		files, err := s.Files(plan.Paths(s.Apply.Files))
		if err != nil {
			continue
		}
		for _, file := range files {
			c.look(s, file, c.manifests)
		}
	}
	err := c.Err()
	if ds, ok := errors.AsType[document.Diagnostics](err); ok {
		for i := range ds {
			if secretLine.MatchString(ds[i].Excerpt) {
				ds[i].Excerpt = ""
			}
		}
	}
	return err
}

// secretLine is a line that is rather not shown.
var secretLine = regexp.MustCompile(`(?i)pass|pwd|secret|token|credential|cookie|key|://[^/]*@`)

// contents looks into files.
type contents struct {
	plan *plan.Plan
	*document.Faults
	// seen are the files, and the lists of files, that were looked into.
	seen  map[string]bool
	bytes int64
	files int
}

// knows reports whether a list of files of a folder was looked into before: steps of
// one for_each have the same, and globs take time.
func (c *contents) knows(dir string, files []string) bool {
	key := fmt.Sprintf("%q %q", dir, files)
	known := c.seen[key]
	c.seen[key] = true
	return known
}

// look reads a file of a step, unless that was done. A file whose expressions were
// evaluated is another one for each step.
func (c *contents) look(s *plan.Step, file string, check func(*document.Source)) {
	if text, ok := s.Evaluated[file]; ok {
		if c.bytes += int64(len(text)); c.bytes <= maxAllContent {
			c.files++
			check(document.NewSource(c.plan.Rel(file), text, document.Options{Order: c.files, Private: true}, c.Faults))
		}
		return
	}
	if c.seen[file] {
		return
	}
	c.seen[file] = true
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxContent || c.bytes+info.Size() > maxAllContent {
		return
	}
	c.bytes += info.Size()
	src, err := os.ReadFile(file)
	if err != nil {
		return
	}
	c.files++
	check(document.NewSource(c.plan.Rel(file), src, document.Options{Order: c.files, Private: aSecret.Match(src)}, c.Faults))
}

// aSecret is a file with a Secret: none of its lines is shown.
var aSecret = regexp.MustCompile(`(?m)\bkind["']?\s*:\s*["']?Secret["']?\s*([,}#]|$)`)

// values looks into a file of values, of which Helm reads the first document.
func (c *contents) values(s *document.Source) {
	var doc yamlv3.Node
	switch err := yamlv3.NewDecoder(bytes.NewReader(s.Bytes())).Decode(&doc); {
	case errors.Is(err, io.EOF):
	case err != nil:
		c.syntax(s, err)
	case !isNull(doc.Content[0]) && behind(doc.Content[0]).Kind != yamlv3.MappingNode:
		c.Add(s, s.Pos(doc.Content[0]), fault{Code: document.CodeWrongType, Hint: "write one name: value on each line"}, "expected a mapping of values, got %s", nodeKind(doc.Content[0]))
	}
}

// manifests looks into a file of objects.
func (c *contents) manifests(s *document.Source) {
	d := yamlv3.NewDecoder(bytes.NewReader(s.Bytes()))
	for {
		var doc yamlv3.Node
		switch err := d.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			c.syntax(s, err)
			return
		case !isNull(doc.Content[0]):
			c.duplicates(s, &doc)
			c.object(s, doc.Content[0])
		}
	}
}

var separator = regexp.MustCompile(`(?m)^(---([ \t].*)?|\.\.\.)\r?$`)

// syntax reports what the parser says, unless the one that reads the file in a run
// has nothing against it.
func (c *contents) syntax(s *document.Source, err error) {
	for _, doc := range separator.Split(string(s.Bytes()), -1) {
		if _, e := yaml.YAMLToJSON([]byte(doc)); e != nil {
			c.ReportSyntax(s, err)
			return
		}
	}
}

// duplicates reports keys that are given twice.
func (c *contents) duplicates(s *document.Source, n *yamlv3.Node) {
	if n.Kind == yamlv3.MappingNode {
		first := make(map[string]int, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			name, ok := document.SimpleKey(k)
			if line, twice := first[name]; ok && twice {
				c.Add(s, s.Pos(k), fault{Code: document.CodeDuplicate, Hint: fmt.Sprintf("the first one is on line %d", line)}, "the key %q is given twice", document.Cut(name, 80))
			} else if ok {
				first[name] = k.Line
			}
		}
	}
	for _, child := range n.Content {
		c.duplicates(s, child)
	}
}

// object reports what an object lacks.
func (c *contents) object(s *document.Source, n *yamlv3.Node) {
	object := behind(n)
	if object.Kind != yamlv3.MappingNode {
		c.Add(s, s.Pos(n), fault{Code: document.CodeWrongType}, "expected an object with apiVersion and kind, got %s", nodeKind(n))
		return
	}
	version, kind, metadata := fieldOf(object, "apiVersion"), fieldOf(object, "kind"), fieldOf(object, "metadata")
	if items := fieldOf(object, "items"); items != nil && items.Kind == yamlv3.SequenceNode && kind != nil && strings.HasSuffix(kind.Value, "List") {
		for _, item := range items.Content {
			c.object(s, item)
		}
		return
	}
	lacks := func(at *yamlv3.Node, hint, format string, args ...any) {
		c.Add(s, s.Pos(at), fault{Code: document.CodeMissingField, Hint: hint}, format, args...)
	}
	name := fieldOf(metadata, "name")
	switch {
	case merges(object) || metadata != nil && merges(metadata):
		// Any field may come from elsewhere.
	case isEmptyNode(version) && isEmptyNode(kind):
		lacks(n, "is it an object of Kubernetes?", "the object has neither apiVersion nor kind")
	case isEmptyNode(version):
		lacks(n, "", "the %s has no apiVersion", document.Cut(kind.Value, 80))
	case isEmptyNode(kind):
		lacks(n, "", "the object has no kind")
	case metadata != nil && !isNull(metadata) && metadata.Kind != yamlv3.MappingNode:
		c.Add(s, s.Pos(metadata), fault{Code: document.CodeWrongType}, "metadata is %s, not a mapping", nodeKind(metadata))
	case isEmptyNode(name) && !isEmptyNode(fieldOf(metadata, "generateName")):
		lacks(n, "server-side apply needs a name: it decides whether the object is already there", "the %s has generateName, but no name", document.Cut(kind.Value, 80))
	case isEmptyNode(name):
		lacks(n, "", "the %s has no metadata.name", document.Cut(kind.Value, 80))
	case !document.IsText(name):
		c.Add(s, s.Pos(name), fault{Code: document.CodeWrongType, Hint: "quote it"}, "metadata.name is not a text")
	}
}

// behind is the value that a node stands for.
func behind(n *yamlv3.Node) *yamlv3.Node {
	for n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	return n
}

// fieldOf is a field of a mapping; nil when there is none.
func fieldOf(n *yamlv3.Node, name string) *yamlv3.Node {
	if n == nil || n.Kind != yamlv3.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return behind(n.Content[i+1])
		}
	}
	return nil
}

func merges(n *yamlv3.Node) bool {
	for i := 0; n.Kind == yamlv3.MappingNode && i < len(n.Content); i += 2 {
		if n.Content[i].ShortTag() == "!!merge" {
			return true
		}
	}
	return false
}

func isNull(n *yamlv3.Node) bool { return n.Kind == yamlv3.ScalarNode && n.ShortTag() == "!!null" }

func isEmptyNode(n *yamlv3.Node) bool {
	return n == nil || n.Kind == yamlv3.ScalarNode && (n.Value == "" || isNull(n))
}

func nodeKind(n *yamlv3.Node) string {
	switch behind(n).Kind {
	case yamlv3.SequenceNode:
		return "a list"
	case yamlv3.MappingNode:
		return "a mapping"
	default:
		return "a scalar"
	}
}
