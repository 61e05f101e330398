package sops

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
)

// splice puts plain values into the text of a file in the place of encrypted ones, so
// that its lines stay where they were, and faults that are found later have a place.
type splice struct{ edits []edit }

// edit is a change of the text at a node.
type edit struct {
	at   *yamlv3.Node
	kind editKind
	// old is the node's text without quotes; text is what comes in its place.
	old, text string
}

type editKind int

const (
	putValue editKind = iota
	cutItem
	cutBlock
)

// replace puts a plain value into the place of an encrypted one.
func (s *splice) replace(n *yamlv3.Node, value any) {
	old := n.Value
	n.Style, n.Tag = 0, ""
	switch v := value.(type) {
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(v)
	case int64:
		n.Tag, n.Value = "!!int", strconv.FormatInt(v, 10)
	case float64:
		n.Tag, n.Value = "!!float", strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(n.Value, ".e") { // as SOPS does: it reads as an integer then
			n.Tag = "!!int"
		}
	case string:
		n.Tag, n.Value, n.Style = "!!str", v, yamlv3.DoubleQuotedStyle
	}
	text := n.Value
	if n.Style == yamlv3.DoubleQuotedStyle {
		text = quote(text)
	}
	s.edits = append(s.edits, edit{n, putValue, old, text})
}

// quote writes a text in double quotes, on one line. JSON's escapes are YAML's too.
func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil { // a text is always written
		return `""`
	}
	// DEL and the C1 controls must be escaped in YAML, and may stand as they are in JSON.
	var out strings.Builder
	for _, r := range string(b) {
		if r >= 0x7f && r <= 0x9f || r == 0xfeff || r == 0xfffe || r == 0xffff {
			out.WriteString(`\u` + strings.ToUpper(strconv.FormatInt(0x10000+int64(r), 16)[1:]))
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// removeItem takes an item out of its list.
func (s *splice) removeItem(n *yamlv3.Node) {
	s.edits = append(s.edits, edit{at: n, kind: cutItem, old: n.Value})
}

// drop takes the sops block out of a document.
func drop(root *yamlv3.Node, w *walk) {
	for i := 0; root.Kind == yamlv3.MappingNode && i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == blockKey {
			w.edits = append(w.edits, edit{at: root.Content[i], kind: cutBlock})
			root.Content = slices.Delete(root.Content, i, i+2)
			i -= 2
		}
	}
}

// render returns the plain text of a file whose documents were decrypted.
func (s *splice) render(src []byte, docs []*yamlv3.Node) ([]byte, error) {
	flow := docs[0].Content[0].Style&yamlv3.FlowStyle != 0
	if text, ok := s.apply(src); ok && !flow && says(text, docs) {
		return text, nil
	}
	var out bytes.Buffer
	e := yamlv3.NewEncoder(&out)
	for _, doc := range docs {
		if err := e.Encode(doc); err != nil {
			return nil, &Error{Message: "cannot be written as YAML once it is decrypted"}
		}
	}
	if err := e.Close(); err != nil {
		return nil, &Error{Message: "cannot be written as YAML once it is decrypted"}
	}
	return out.Bytes(), nil
}

// says reports whether a text has the values of documents.
func says(text []byte, docs []*yamlv3.Node) bool {
	again, err := parse(text)
	if err != nil || len(again) != len(docs) {
		return false
	}
	for i, doc := range docs {
		var a, b any
		if doc.Decode(&a) != nil || again[i].Decode(&b) != nil {
			return false
		}
		if m, is := a.(map[string]any); is && len(m) == 0 && b == nil {
			continue
		}
		if !reflect.DeepEqual(a, b) {
			return false
		}
	}
	return true
}

// span is a part of a text, and what comes in its place.
type span struct {
	from, to int
	text     string
}

// apply makes the edits; it is not ok when one is not found where it should be.
func (s *splice) apply(src []byte) (_ []byte, ok bool) {
	lines := lineStarts(src)
	var spans []span
	for _, e := range s.edits {
		at, ok := offset(src, lines, e.at)
		if !ok {
			return nil, false
		}
		sp, ok := e.span(src, at)
		if !ok {
			return nil, false
		}
		spans = append(spans, sp)
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var out bytes.Buffer
	done := 0
	for _, sp := range spans {
		if sp.from < done {
			return nil, false
		}
		out.Write(src[done:sp.from])
		out.WriteString(sp.text)
		done = sp.to
	}
	out.Write(src[done:])
	return out.Bytes(), true
}

func (e edit) span(src []byte, at int) (span, bool) {
	if e.kind == cutBlock {
		end := blockEnd(src, at)
		return span{at, end, strings.Repeat("\n", bytes.Count(src[at:end], []byte("\n")))}, true
	}
	for _, quotes := range []string{"", `"`, "'"} {
		whole := quotes + e.old + quotes
		if !bytes.HasPrefix(src[at:], []byte(whole)) {
			continue
		}
		if e.kind == putValue {
			return span{at, at + len(whole), e.text}, true
		}
		dash := bytes.TrimRight(src[:at], " ")
		if len(dash) == 0 || dash[len(dash)-1] != '-' {
			return span{}, false
		}
		return span{len(dash) - 1, at + len(whole), ""}, true
	}
	return span{}, false
}

// blockEnd is where the block of a field of the root ends: before the next line that is
// not indented.
func blockEnd(src []byte, at int) int {
	for i := at; ; {
		next := bytes.IndexByte(src[i:], '\n')
		if next < 0 {
			return len(src)
		}
		i += next + 1
		if i == len(src) || !bytes.ContainsRune([]byte(" \t\r\n#"), rune(src[i])) {
			return i
		}
	}
}

func lineStarts(src []byte) []int {
	starts := []int{0}
	for i, c := range src {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// offset is where a node begins in the text. The parser counts characters.
func offset(src []byte, lines []int, n *yamlv3.Node) (int, bool) {
	if n.Line < 1 || n.Line > len(lines) {
		return 0, false
	}
	at := lines[n.Line-1]
	for range n.Column - 1 {
		if at >= len(src) {
			return 0, false
		}
		_, size := utf8.DecodeRune(src[at:])
		at += size
	}
	return at, at < len(src)
}
