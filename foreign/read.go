package foreign

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/plan/document"
)

// ErrTooLarge says that a file is larger than what is read, or becomes so by its aliases.
var ErrTooLarge = errors.New("too large to be imported")

// Options say how a file is read.
type Options struct {
	// Column returns where something stands in the file that the user has, when the
	// text was changed before it was read; nil for where it stands.
	Column func(line, col int) int
}

// Read reads the YAML documents of a file, without empty ones. Aliases and merge keys
// are put in.
func Read(f File, o Options, r *Report) ([]*Value, error) {
	if len(f.Data) > document.MaxSize {
		return nil, fmt.Errorf("%s: %w: more than %d bytes", f.Name, ErrTooLarge, document.MaxSize)
	}
	source := document.NewPart(f.Name, 1, f.Data)
	d := yaml.NewDecoder(bytes.NewReader(source.Bytes()))
	left := document.MaxNodes
	var docs []*Value
	for {
		var n yaml.Node
		err := decode(d, &n)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, syntaxError(f.Name, err)
		}
		if len(n.Content) == 0 || isNull(n.Content[0]) {
			continue
		}
		root, err := expand(n.Content[0], nil, &left)
		var at *nodeError
		switch {
		case errors.As(err, &at):
			return nil, &SyntaxError{document.Pos{File: f.Name, Line: at.node.Line, Col: at.node.Column}, at}
		case err != nil:
			return nil, fmt.Errorf("%s:%d:%d: %w", f.Name, n.Content[0].Line, n.Content[0].Column, err)
		}
		docs = append(docs, &Value{
			doc:  &doc{source: source, report: r, taken: map[*yaml.Node]bool{}, entered: map[*yaml.Node]bool{}, column: o.Column},
			node: root,
		})
	}
}

// decode reads one document. The parser panics over some texts that are no YAML.
func decode(d *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("this is no YAML: %v", p)
		}
	}()
	return d.Decode(n)
}

// SyntaxError says where a file is no YAML, or none that can be imported.
type SyntaxError struct {
	document.Pos
	Err error
}

// Error implements error.
func (e *SyntaxError) Error() string { return e.String() + ": " + e.Err.Error() }

// Unwrap returns the parser's error.
func (e *SyntaxError) Unwrap() error { return e.Err }

// syntaxError moves the line that the parser tells of to where editors look for it.
func syntaxError(file string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	e := &SyntaxError{document.Pos{File: file}, errors.New(document.Clean(text))}
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if number, message, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				e.Pos = document.Pos{File: file, Line: n, Col: 1}
				e.Err = errors.New(document.Clean(message))
			}
		}
	}
	return e
}

// nodeError says which node cannot be imported, and why.
type nodeError struct {
	node *yaml.Node
	text string
}

func (e *nodeError) Error() string { return e.text }

// expand copies a node with its aliases and merge keys put in. What an alias brings
// stands where its anchor does.
func expand(n *yaml.Node, within []*yaml.Node, left *int) (*yaml.Node, error) {
	if *left--; *left < 0 {
		return nil, ErrTooLarge
	}
	if n.Kind == yaml.AliasNode {
		if slices.Contains(within, n.Alias) {
			return nil, &nodeError{n, "the alias *" + document.Clean(n.Value) + " stands inside of what it refers to"}
		}
		return expand(n.Alias, append(within, n.Alias), left)
	}
	c := *n
	c.Anchor, c.Alias, c.Content, c.FootComment = "", nil, nil, ""
	if n.Kind == yaml.MappingNode {
		return &c, expandFields(&c, n, within, left)
	}
	for _, item := range n.Content {
		x, err := expand(item, within, left)
		if err != nil {
			return nil, err
		}
		c.Content = append(c.Content, x)
	}
	return &c, nil
}

// expandFields puts the fields of a mapping into its copy. Its own win over those that
// a merge key brings, and of two with one name the last one.
func expandFields(c, n *yaml.Node, within []*yaml.Node, left *int) error {
	var merged []*yaml.Node
	at := map[string]int{}
	set := func(k, v *yaml.Node, own bool) {
		if i, known := at[k.Value]; known {
			if own {
				c.Content[i], c.Content[i+1] = k, v
			}
			return
		}
		at[k.Value] = len(c.Content)
		c.Content = append(c.Content, k, v)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, err := expand(n.Content[i], within, left)
		if err != nil {
			return err
		}
		v, err := expand(n.Content[i+1], within, left)
		if err != nil {
			return err
		}
		switch {
		case k.Kind != yaml.ScalarNode:
			return &nodeError{k, "a key is no text"}
		case k.ShortTag() == "!!merge" && v.Kind == yaml.SequenceNode:
			merged = append(merged, v.Content...)
		case k.ShortTag() == "!!merge":
			merged = append(merged, v)
		default:
			set(k, v, true)
		}
	}
	for _, m := range merged {
		for i := 0; m.Kind == yaml.MappingNode && i+1 < len(m.Content); i += 2 {
			set(m.Content[i], m.Content[i+1], false)
		}
	}
	return nil
}

// plainTags are those that a plan can have.
var plainTags = map[string]bool{"!!str": true, "!!int": true, "!!float": true, "!!bool": true, "!!null": true, "!!map": true, "!!seq": true}

// sane copies a node as a plan can have it, and tells of what it cannot.
func (d *doc) sane(n *yaml.Node, path document.Path) *yaml.Node {
	c := *n
	c.Content = nil
	tag := n.ShortTag()
	if n.Style&yaml.TaggedStyle != 0 && !plainTags[tag] {
		d.report.Lost(d.place(n, path), "write the value that it stands for", "the tag %s is not understood, and the value stands as it is", tag)
		c.Tag, c.Style = "", c.Style&^yaml.TaggedStyle
		if n.Kind == yaml.ScalarNode {
			c.SetString(n.Value)
		}
	}
	if n.Kind == yaml.ScalarNode && tag == "!!float" && strings.Contains(strings.ToLower(n.Value), "n") { // .inf and .nan
		c.SetString(n.Value)
	}
	for i, x := range n.Content {
		at := path
		switch {
		case n.Kind == yaml.SequenceNode:
			at = path.Index(i)
		case i%2 == 1:
			at = path.Key(n.Content[i-1].Value)
		}
		y := d.sane(x, at)
		if n.Kind == yaml.MappingNode && i%2 == 0 && isNull(y) {
			y.SetString(y.Value)
			y.Style = yaml.DoubleQuotedStyle
		}
		c.Content = append(c.Content, y)
	}
	return &c
}
