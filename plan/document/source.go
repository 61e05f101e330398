package document

import (
	"bytes"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/plan/redact"
)

// Source is a YAML file that was read: its lines and nodes, for positions.
type Source struct {
	*lines
	file    string
	options Options
	// private files may hold secrets: no line of them is shown.
	private bool
	// secrets is what no line that is shown may have; it may be nil.
	secrets *redact.Set
	// root is the document's node; see tree.
	root *yamlv3.Node
	// fields are the values and keys of large mappings; see field.
	fields map[*yamlv3.Node]map[string]int
	// hidden are the paths of sensitive values, and hiddenAt where they stand: see extents.
	hidden   []Path
	hiddenAt [][2]int
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
	return &Source{lines: newLines(src), file: file, options: o, private: o.Private, secrets: f.Secrets}
}

// Clone returns the source for somebody else: the two can be used side by side.
func (s *Source) Clone() *Source {
	return &Source{
		lines: &lines{src: s.src, starts: s.starts}, file: s.file, options: s.options, private: s.private, secrets: s.secrets, hidden: s.hidden,
	}
}

// File is the file's path, as messages have it.
func (s *Source) File() string { return s.file }

// Bytes are the file's, without a byte order mark. They are not to be changed.
func (s *Source) Bytes() []byte { return s.src }

// tree returns the document's node; nil when the file could not be parsed.
func (s *Source) tree() *yamlv3.Node {
	if s.root == nil {
		var doc yamlv3.Node
		if yamlv3.NewDecoder(bytes.NewReader(s.src)).Decode(&doc) == nil {
			s.root = doc.Content[0]
			s.nameKeys(s.root)
		}
	}
	return s.root
}

// Pos returns where a node starts.
func (s *Source) Pos(n *yamlv3.Node) Pos { return Pos{s.file, n.Line, n.Column} }

// posAt returns the position of the byte at an offset.
func (s *Source) posAt(offset int) Pos {
	p := s.posOf(offset)
	p.File = s.file
	return p
}
