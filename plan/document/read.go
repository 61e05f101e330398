package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// MaxSize bounds a file that is read, in bytes.
const MaxSize = 1 << 20

// keepNodes is the size of a file, in bytes, up to which its nodes are kept. They
// take more memory than the values, and a good plan does not need them: for the
// positions of faults a large file is parsed once more.
const keepNodes = 64 << 10

// Read checks that src is one sane YAML document and returns its values as
// sigs.k8s.io/yaml understands them (YAML 1.1, as Kubernetes and Helm do). The
// positions come from a second parser, which keeps them. Faults that make the
// values unusable are reported and ok is false; for duplicate keys the values
// are given nevertheless.
//
// Keys that are names are what stands there, whatever YAML takes them for.
func Read(file string, src []byte, o Options, f *Faults) (s *Source, tree any, ok bool) {
	s = NewSource(file, src, o, f)
	r := reader{Source: s, faults: f}
	if !r.checkBytes() || !r.parse() {
		s.Private = !s.open()
		return s, nil, false
	}
	duplicates, ok := r.checkNodes()
	if !ok {
		s.Private = !s.open()
		return s, nil, false
	}
	if len(s.src) > keepNodes {
		s.root = nil
	}
	convert := yaml.YAMLToJSONStrict
	if duplicates {
		convert = yaml.YAMLToJSON // they are reported already, with better positions
	}
	doc, err := convert(s.quoteKeys(r.quoted))
	if err != nil {
		f.ReportSyntax(s, err)
		return s, nil, false
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		f.ReportSyntax(s, err)
		return s, nil, false
	}
	return s, PlainNumbers(tree), true
}

// reader reads one source.
type reader struct {
	*Source
	faults *Faults
	// quoted are the keys that are names, and that YAML reads otherwise.
	quoted []*yamlv3.Node
}

// refuse reports a fault that makes the file unusable. It returns false.
func (r *reader) refuse(pos Pos, hint, format string, args ...any) bool {
	r.faults.Add(r.Source, pos, Fault{Code: CodeSyntax, Hint: hint}, format, args...)
	return false
}

// checkBytes refuses what is not readable text before any parser sees it.
func (r *reader) checkBytes() bool {
	switch whole := (Pos{File: r.file}); {
	case len(r.src) > MaxSize:
		return r.refuse(whole, "move large values to values_files, and objects to apply.files", "the file is larger than %d bytes, which is the most that is read", MaxSize)
	case bytes.HasPrefix(r.src, []byte("\xff\xfe")), bytes.HasPrefix(r.src, []byte("\xfe\xff")):
		return r.refuse(whole, "save the file as UTF-8", "the file is UTF-16 text")
	case len(bytes.TrimSpace(r.src)) == 0:
		return r.refuse(whole, "", "the file is empty")
	}
	for i := 0; i < len(r.src); {
		c, n := utf8.DecodeRune(r.src[i:])
		if c == utf8.RuneError && n == 1 {
			return r.refuse(r.posAt(i), "save the file as UTF-8", "the file is not UTF-8 text: byte 0x%02x", r.src[i])
		}
		if (c < ' ' && c != '\t' && c != '\n' && c != '\r') || c == 0x7f || (c > 0x7f && c < 0xa0 && c != 0x85) {
			return r.refuse(r.posAt(i), `write it as an escape in double quotes: "\x1b"`, "the file has the control character U+%04X", c)
		}
		i += n
	}
	return true
}

// parse reads the nodes of the one document.
func (r *reader) parse() bool {
	d := yamlv3.NewDecoder(bytes.NewReader(r.src))
	var doc, next yamlv3.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return r.refuse(Pos{File: r.file}, "", "the file is empty: it has only comments")
	case err != nil:
		r.faults.ReportSyntax(r.Source, err)
		return false
	}
	r.root = doc.Content[0]
	r.quoted = nameKeys(r.root, r.Keys)
	switch err := d.Decode(&next); {
	case errors.Is(err, io.EOF):
	case err != nil:
		r.faults.ReportSyntax(r.Source, err)
		return false
	case isEmptyDocument(&next): // a lone --- at the end
	default:
		return r.refuse(r.Pos(next.Content[0]), "put each plan in a file of its own", "the file has a second YAML document, which starts here; one is read")
	}
	if isEmptyDocument(&doc) {
		return r.refuse(Pos{File: r.file}, "", "the file is empty")
	}
	return true
}

func isEmptyDocument(n *yamlv3.Node) bool {
	return len(n.Content) == 1 && n.Content[0].Kind == yamlv3.ScalarNode && n.Content[0].Value == "" && n.Content[0].ShortTag() == "!!null"
}

// PlainNumbers turns the numbers of a decoded tree into int64 where they fit,
// else float64. An integer beyond int64 stays a json.Number, as it would be in
// Helm, rather than lose digits.
func PlainNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = PlainNumbers(x)
		}
	case []any:
		for i, x := range v {
			v[i] = PlainNumbers(x)
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
