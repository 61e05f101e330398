package lint

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/plan/document"
)

// Edit puts text into a file, in the place of some.
type Edit struct {
	File string
	// Line is a line of the file, counted from 1, and Offset the bytes from its start.
	Line, Offset int
	// Delete is how many bytes go away.
	Delete int
	Insert string
}

// Edited returns a file's text with all edits of that file made.
func Edited(file string, src []byte, edits []Edit) []byte {
	start := func(e Edit) int { return lineStart(src, e.Line) + e.Offset }
	edits = slices.DeleteFunc(slices.Clone(edits), func(e Edit) bool { return e.File != file })
	slices.SortStableFunc(edits, func(a, b Edit) int { return cmp.Compare(start(a), start(b)) })
	var out bytes.Buffer
	done := 0
	for _, e := range edits {
		out.Write(src[done:start(e)])
		out.WriteString(e.Insert)
		done = start(e) + e.Delete
	}
	out.Write(src[done:])
	return out.Bytes()
}

// lineStart is where a line starts; a byte order mark is before the first one.
func lineStart(src []byte, line int) int {
	at := 0
	for range line - 1 {
		i := bytes.IndexByte(src[at:], '\n')
		if i < 0 {
			return len(src)
		}
		at += i + 1
	}
	if at == 0 && bytes.HasPrefix(src, []byte("\ufeff")) {
		at = len("\ufeff")
	}
	return at
}

// editor makes edits of one document. It inserts whole nodes and leaves the rest,
// comments and layout included, as it is.
type editor struct {
	text *document.Source
	// eol ends the document's lines.
	eol string
}

func newEditor(t *document.Source) editor {
	e := editor{t, "\n"}
	if bytes.Contains(t.Bytes(), []byte("\r\n")) {
		e.eol = "\r\n"
	}
	return e
}

// insertAt inserts text at an offset. The edit counts from the line's start, for a
// document's lines are those of the file, and the bytes before it may not be.
func (e editor) insertAt(offset int, text string) Edit {
	before := e.text.Bytes()[:offset]
	return Edit{
		File: e.text.File(), Line: e.text.Begin() + bytes.Count(before, []byte("\n")), Offset: offset - bytes.LastIndexByte(before, '\n') - 1, Insert: text,
	}
}

// before inserts text right before a node.
func (e editor) before(n *yamlv3.Node, text string) Edit { return e.insertAt(e.text.Offset(n), text) }

// lead is what stands before a node on its line.
func (e editor) lead(n *yamlv3.Node) (start int, lead string) {
	at := e.text.Offset(n)
	start = bytes.LastIndexByte(e.text.Bytes()[:at], '\n') + 1
	return start, string(e.text.Bytes()[start:at])
}

// above inserts lines above a node, which stands on a line of its own but for a
// dash, and above the comments that belong to it. A blank line keeps the distance
// where there is one.
func (e editor) above(n *yamlv3.Node, lines []string) Edit {
	start, _ := e.lead(n)
	src := e.text.Bytes()
	for start > 0 {
		prev := bytes.LastIndexByte(src[:start-1], '\n') + 1
		if !bytes.HasPrefix(bytes.TrimSpace(src[prev:start]), []byte("#")) {
			if len(bytes.TrimSpace(src[prev:start])) == 0 {
				lines = append(lines, "")
			}
			break
		}
		start = prev
	}
	return e.insertAt(start, strings.Join(lines, e.eol)+e.eol)
}

// isItem reports whether a node is an item of a list that has its line for itself,
// and returns what stands before it: blanks and a dash.
func (e editor) isItem(n *yamlv3.Node) (lead string, ok bool) {
	_, lead = e.lead(n)
	return lead, strings.TrimSpace(lead) == "-"
}

// flow reports whether a node is written in braces or brackets.
func flow(n *yamlv3.Node) bool { return n.Style&yamlv3.FlowStyle != 0 }
