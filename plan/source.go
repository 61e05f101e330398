package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/plan/redact"
)

// maxFileSize bounds a plan or var file, in bytes.
const maxFileSize = 1 << 20

// source is one YAML file that was read: its lines and nodes for positions.
type source struct {
	file string
	// private files may hold secrets: no line of them is shown.
	private bool
	// order sorts the faults of several sources.
	order int
	src   []byte
	// starts holds the offset of each line.
	starts []int
	// keys says which keys are names, and quoted are those that YAML reads otherwise.
	keys   keyKind
	quoted []*yamlv3.Node
	// root is the document's node; see tree.
	root *yamlv3.Node
	// last is where offsetOf ended: many positions may be on one long line.
	last       Pos
	lastOffset int
	// fields are the values and keys of large mappings; see field.
	fields map[*yamlv3.Node]map[string]int
	// secrets is what no line that is shown may have; it may be nil.
	secrets *redact.Set
	// hidden are the values of sensitive variables; see extents.
	hidden   []path
	hiddenAt [][2]int
}

// keepNodes is the size of a file, in bytes, up to which its nodes are kept. They
// take more memory than the values, and a good plan does not need them: for the
// positions of faults a large file is parsed once more.
const keepNodes = 64 << 10

// tree gives the document's node; nil when the file could not be parsed.
func (s *source) tree() *yamlv3.Node {
	if s.root == nil {
		var doc yamlv3.Node
		if yamlv3.NewDecoder(bytes.NewReader(s.src)).Decode(&doc) == nil {
			s.root = doc.Content[0]
			s.nameKeys(s.root)
		}
	}
	return s.root
}

// readSource checks that src is one sane YAML document and gives its values as
// sigs.k8s.io/yaml understands them (YAML 1.1, as Kubernetes and Helm do). The
// positions come from a second parser, which keeps them. Faults that make the
// values unusable are reported and ok is false; for duplicate keys the values
// are given nevertheless.
//
// Keys that are names are what stands there, whatever YAML takes them for.
func readSource(file string, order int, src []byte, keys keyKind, f *faults) (s *source, tree any, ok bool) {
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	s = &source{file: file, private: order > 0, order: order, src: src, keys: keys, secrets: f.secrets}
	s.index()
	if !s.checkBytes(f) || !s.parse(f) {
		s.private = !s.open()
		return s, nil, false
	}
	duplicates, ok := s.checkNodes(f)
	if !ok {
		s.private = !s.open()
		return s, nil, false
	}
	text := s.quoteKeys(s.quoted)
	s.quoted = nil
	if len(src) > keepNodes {
		s.root = nil
	}
	convert := yaml.YAMLToJSONStrict
	if duplicates {
		convert = yaml.YAMLToJSON // they are reported already, with better positions
	}
	doc, err := convert(text)
	if err != nil {
		s.syntaxFault(f, err)
		return s, nil, false
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		s.syntaxFault(f, err)
		return s, nil, false
	}
	return s, plainNumbers(tree), true
}

// index notes where each line starts. A line ends where YAML 1.1 says so: at LF,
// CR LF and CR, but also at U+0085, U+2028 and U+2029, for the nodes' positions
// count them.
func (s *source) index() {
	s.starts = append(make([]int, 0, bytes.Count(s.src, []byte{'\n'})+1), 0)
	for i, c := range s.src {
		rest := s.src[i:]
		switch {
		case c == '\n',
			c == '\r' && !bytes.HasPrefix(rest, []byte("\r\n")),
			c == 0x85 && bytes.HasSuffix(s.src[:i+1], []byte("\u0085")),
			c == 0xa8 && bytes.HasSuffix(s.src[:i+1], []byte("\u2028")),
			c == 0xa9 && bytes.HasSuffix(s.src[:i+1], []byte("\u2029")):
			s.starts = append(s.starts, i+1)
		}
	}
}

// line gives line n, counted from 1, with its line break.
func (s *source) line(n int) []byte {
	if n < 1 || n > len(s.starts) {
		return nil
	}
	end := len(s.src)
	if n < len(s.starts) {
		end = s.starts[n]
	}
	return s.src[s.starts[n-1]:end]
}

// posOf gives the position of the byte at offset.
func (s *source) posOf(offset int) Pos {
	lo, hi := 0, len(s.starts)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; s.starts[mid] <= offset {
			lo = mid
		} else {
			hi = mid
		}
	}
	return Pos{s.file, lo + 1, utf8.RuneCount(s.src[s.starts[lo]:offset]) + 1}
}

// offsetOf gives the byte at a position.
func (s *source) offsetOf(p Pos) int {
	if p.Line < 1 || p.Line > len(s.starts) {
		return len(s.src)
	}
	at, col := s.starts[p.Line-1], 1
	if s.last.Line == p.Line && s.last.Col <= p.Col {
		at, col = s.lastOffset, s.last.Col
	}
	for ; col < p.Col && at < len(s.src) && s.src[at] != '\n'; col++ {
		_, n := utf8.DecodeRune(s.src[at:])
		at += n
	}
	s.last, s.lastOffset = Pos{Line: p.Line, Col: col}, at
	return at
}

// checkBytes refuses what is not readable text before any parser sees it.
func (s *source) checkBytes(f *faults) bool {
	whole := Pos{File: s.file}
	switch {
	case len(s.src) > maxFileSize:
		f.as(CodeSyntax).add(s, whole, "", "move large values to values_files, and objects to apply.files",
			"the file is larger than %d bytes, which is the most that is read", maxFileSize)
		return false
	case bytes.HasPrefix(s.src, []byte("\xff\xfe")), bytes.HasPrefix(s.src, []byte("\xfe\xff")):
		f.as(CodeSyntax).add(s, whole, "", "save the file as UTF-8", "the file is UTF-16 text")
		return false
	case len(bytes.TrimSpace(s.src)) == 0:
		f.as(CodeSyntax).add(s, whole, "", "", "the file is empty")
		return false
	}
	for i := 0; i < len(s.src); {
		r, n := utf8.DecodeRune(s.src[i:])
		if r == utf8.RuneError && n == 1 {
			f.as(CodeSyntax).add(s, s.posOf(i), "", "save the file as UTF-8", "the file is not UTF-8 text: byte 0x%02x", s.src[i])
			return false
		}
		if (r < ' ' && r != '\t' && r != '\n' && r != '\r') || r == 0x7f || (r > 0x7f && r < 0xa0 && r != 0x85) {
			f.as(CodeSyntax).add(s, s.posOf(i), "", `write it as an escape in double quotes: "\x1b"`, "the file has the control character U+%04X", r)
			return false
		}
		i += n
	}
	return true
}

// parse reads the nodes of the one document.
func (s *source) parse(f *faults) bool {
	d := yamlv3.NewDecoder(bytes.NewReader(s.src))
	var doc, next yamlv3.Node
	if err := d.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			f.as(CodeSyntax).add(s, Pos{File: s.file}, "", "", "the file is empty: it has only comments")
		} else {
			s.syntaxFault(f, err)
		}
		return false
	}
	s.root = doc.Content[0]
	s.quoted = s.nameKeys(s.root)
	switch err := d.Decode(&next); {
	case errors.Is(err, io.EOF):
	case err != nil:
		s.syntaxFault(f, err)
		return false
	case isEmptyDocument(&next): // a lone --- at the end
	default:
		f.as(CodeSyntax).add(s, s.pos(next.Content[0]), "", "put each plan in a file of its own",
			"the file has a second YAML document, which starts here; one is read")
		return false
	}
	if isEmptyDocument(&doc) {
		f.as(CodeSyntax).add(s, Pos{File: s.file}, "", "", "the file is empty")
		return false
	}
	return true
}

func isEmptyDocument(n *yamlv3.Node) bool {
	return len(n.Content) == 1 && n.Content[0].Kind == yamlv3.ScalarNode && n.Content[0].Value == "" && n.Content[0].ShortTag() == "!!null"
}

// plainNumbers turns the numbers of a decoded tree into int64 where they fit,
// else float64. An integer beyond int64 stays a json.Number, as it would be in
// Helm, rather than lose digits.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = plainNumbers(x)
		}
	case []any:
		for i, x := range v {
			v[i] = plainNumbers(x)
		}
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		if x, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return x
		}
	}
	return v
}
