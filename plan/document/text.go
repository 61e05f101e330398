package document

import (
	"bytes"
	"slices"
	"sync"

	yamlv3 "go.yaml.in/yaml/v3"
)

// Text is one YAML document of a file that is at hand: it knows where its values
// stand. It does not say what they mean: that is for those who read the file. It
// is safe for concurrent use.
type Text struct {
	// mu guards s, whose nodes are read when they are first needed.
	mu sync.Mutex
	s  *Source
	// before counts the lines of the file before the text.
	before int
}

// Place is where a value stands in a file.
type Place struct {
	Pos
	// Path leads to the value, as in steps[0].helm.chart.
	Path string
	// Excerpt is the line, cut to a width that terminals show, and a second one
	// with a caret under the column.
	Excerpt string
}

// NewText makes the text of one document. Its first line is that number of the
// file, counted from 1.
func NewText(file string, line int, src []byte) *Text {
	return &Text{s: NewSource(file, src, Options{}, &Faults{}), before: line - 1}
}

// TextOf makes the text of a source that was read, all of it.
func TextOf(s *Source) *Text { return &Text{s: s} }

// Source returns what the text was made of, for its only user: it is not locked.
func (t *Text) Source() *Source { return t.s }

// File is the file's path, as messages have it.
func (t *Text) File() string { return t.s.file }

// Begin is the line of the file that the text begins with, counted from 1.
func (t *Text) Begin() int { return t.before + 1 }

// Bytes are the document's, without a byte order mark. They are not to be changed.
func (t *Text) Bytes() []byte { return t.s.src }

// Root is the document's node; nil when it cannot be parsed. Lines of its nodes
// count from 1 in the text, not in the file.
func (t *Text) Root() *yamlv3.Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.s.tree()
}

// Node is the node at a path of fields, by name, and items of lists, by index. It
// is nil where the document has none.
func (t *Text) Node(fields ...any) *yamlv3.Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, _, all := t.s.find(fields)
	if !all {
		return nil
	}
	return n
}

// Place returns where the value at a path stands: the value itself when it is a
// scalar, else its key. Where the path cannot be followed to its end, it is as far
// as that goes.
func (t *Text) Place(fields ...any) Place {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, key, _ := t.s.find(fields)
	switch {
	case n == nil:
		return Place{Pos: Pos{File: t.s.file}, Path: Path(fields).String()}
	case n.Kind != yamlv3.ScalarNode && key != nil:
		n = key
	}
	return t.place(n, fields)
}

// PlaceOf is Place for a node of the document, which may be a key.
func (t *Text) PlaceOf(n *yamlv3.Node, fields ...any) Place {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.place(n, fields)
}

// PlaceAt is the place at a line of the file and a column, in characters.
func (t *Text) PlaceAt(line, col int) Place {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at(Pos{t.s.file, line - t.before, col}, nil)
}

func (t *Text) place(n *yamlv3.Node, fields []any) Place { return t.at(t.s.Pos(n), fields) }

// at is the place at a position in the text.
func (t *Text) at(pos Pos, fields []any) Place {
	p := Place{Pos: pos, Path: cleaned(Cut(Path(fields).String(), maxWords))}
	if !t.s.private {
		p.Excerpt = t.s.excerpt(pos)
	}
	p.Line += t.before
	return p
}

// Pos returns where the value at a path starts, as far as the path can be followed.
func (t *Text) Pos(fields ...any) Pos {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.s.ValuePos(fields)
}

// Offset is where a node starts in Bytes.
func (t *Text) Offset(n *yamlv3.Node) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.s.offsetOf(t.s.Pos(n))
}

// Line is a line of the file without its end; "" when the text does not have it.
func (t *Text) Line(n int) string {
	return string(bytes.TrimRight(t.s.line(n-t.before), "\r\n\u0085\u2028\u2029"))
}

// Origin is where a value was read.
type Origin struct {
	// Text is the file; nil for a value that was not read from one.
	Text *Text
	// At leads to the value.
	At Path
}

// Place returns where a field below the value stands. See Text.Place.
func (o Origin) Place(fields ...any) Place {
	at := slices.Concat(o.At, Path(fields))
	if o.Text == nil {
		return Place{Path: at.String()}
	}
	return o.Text.Place(at...)
}
