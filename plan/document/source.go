package document

import (
	"bytes"
	"slices"
	"sync"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/plan/redact"
)

// Source is one YAML document of a file: its lines and nodes, for positions. It does
// not say what the values mean: that is for those who read the file. Once all is
// hidden that is to be, it is safe for concurrent use.
type Source struct {
	*lines
	Options
	// before counts the lines of the file before the document.
	before int
	// secrets is what no line that is shown may have; it may be nil.
	secrets *redact.Set
	// hidden are the paths of sensitive values, and extents returns where they stand:
	// from where to where in the file, the last one first.
	hidden  []Path
	extents func() [][2]int

	// root is the document's node, which mu guards; see Root.
	root *yamlv3.Node
	// fields are the values and keys of large mappings, which mu guards; see field.
	fields map[*yamlv3.Node]map[string]int
}

// Options say how a source is read.
type Options struct {
	// Order sorts the faults of several sources.
	Order int
	// Private sources may hold secrets: no line of them is shown.
	Private bool
	// Keys says which keys are names.
	Keys Keys
}

// NewSource returns a source whose text nobody has looked at.
func NewSource(file string, src []byte, o Options, f *Faults) *Source {
	s := &Source{lines: newLines(file, src), Options: o, secrets: f.Secrets}
	s.extents = sync.OnceValue(s.findHidden)
	return s
}

// NewPart returns the source of one document of a file. Its first line is that number
// of the file, counted from 1.
func NewPart(file string, line int, src []byte) *Source {
	s := NewSource(file, src, Options{}, &Faults{})
	s.before = line - 1
	return s
}

// File is the file's path, as messages have it.
func (s *Source) File() string { return s.file }

// Begin is the line of the file that the document begins with, counted from 1.
func (s *Source) Begin() int { return s.before + 1 }

// Bytes are the document's, without a byte order mark. They are not to be changed.
func (s *Source) Bytes() []byte { return s.src }

// Line is a line of the file without its end; "" when the document does not have it.
func (s *Source) Line(n int) string { return string(trimBreak(s.line(n - s.before))) }

// Root is the document's node; nil when it cannot be parsed. Lines of its nodes
// count from 1 in the document, not in the file.
func (s *Source) Root() *yamlv3.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root == nil {
		var doc yamlv3.Node
		if yamlv3.NewDecoder(bytes.NewReader(s.src)).Decode(&doc) == nil {
			s.root = doc.Content[0]
			nameKeys(s.root, s.Keys)
		}
	}
	return s.root
}

// Pos returns where a node starts in the document.
func (s *Source) Pos(n *yamlv3.Node) Pos { return Pos{s.file, n.Line, n.Column} }

// Offset is where a node starts in Bytes.
func (s *Source) Offset(n *yamlv3.Node) int { return s.offsetOf(s.Pos(n)) }

// Place is where a value stands in a file.
type Place struct {
	Pos
	// Path leads to the value, as in steps[0].helm.chart.
	Path string
	// Excerpt is the line, cut to a width that terminals show, and a second one
	// with a caret under the column.
	Excerpt string
}

// Place returns where the value at a path stands: the value itself when it is a
// scalar, else its key. Where the path cannot be followed to its end, it is as far
// as that goes.
func (s *Source) Place(fields ...any) Place {
	n, key := s.Node(fields)
	switch {
	case n == nil:
		return Place{Pos: Pos{File: s.file}, Path: Path(fields).String()}
	case n.Kind != yamlv3.ScalarNode && key != nil:
		n = key
	}
	return s.PlaceOf(n, fields...)
}

// PlaceOf is Place for a node of the document, which may be a key.
func (s *Source) PlaceOf(n *yamlv3.Node, fields ...any) Place {
	p := s.PlaceAt(n.Line+s.before, n.Column)
	p.Path = cleaned(Cut(Path(fields).String(), maxWords))
	return p
}

// PlaceAt is the place at a line of the file and a column, in characters.
func (s *Source) PlaceAt(line, col int) Place {
	p := Place{Pos: Pos{s.file, line, col}}
	if !s.Private {
		p.Excerpt = s.excerpt(Pos{s.file, line - s.before, col})
	}
	return p
}

// Origin is where a value was read.
type Origin struct {
	// Text is the file; nil for a value that was not read from one.
	Text *Source
	// At leads to the value.
	At Path
}

// Place returns where a field below the value stands. See Source.Place.
func (o Origin) Place(fields ...any) Place {
	at := slices.Concat(o.At, Path(fields))
	if o.Text == nil {
		return Place{Path: at.String()}
	}
	return o.Text.Place(at...)
}
