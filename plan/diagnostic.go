package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Pos is a place in a file. Line and Col count from 1, Col in characters; a
// Line of 0 means the file as a whole, or an argument of the command line.
type Pos struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	Col  int    `json:"col,omitempty"`
}

// String gives file:line:col, as editors and terminals link it.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Diagnostic is one fault of a plan. No text in it has control characters.
type Diagnostic struct {
	Pos
	// Path is where the fault is, as a path of fields: steps[0].helm.chart.
	Path string `json:"path,omitempty"`
	// Message says what is wrong: one line, lowercase, no final period.
	Message string `json:"message"`
	// Hint says what to do about it.
	Hint string `json:"hint,omitempty"`
	// Excerpt is the line of the file, cut to a width that terminals show, and
	// a second line with a caret under the column.
	Excerpt string `json:"excerpt,omitempty"`
}

// Diagnostics are all faults of a plan, in the order of the files and their
// lines. As an error it renders all of them.
type Diagnostics []Diagnostic

// Error renders every fault: file:line:col: message, the excerpt, the hint.
func (ds Diagnostics) Error() string {
	var b strings.Builder
	for i, d := range ds {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(d.String())
	}
	return b.String()
}

// String renders one fault on one to four lines, without a final newline.
func (d Diagnostic) String() string {
	var b strings.Builder
	b.WriteString(clean(d.Pos.String()))
	b.WriteString(": ")
	b.WriteString(d.Message)
	if d.Excerpt != "" {
		b.WriteString("\n    ")
		b.WriteString(strings.ReplaceAll(d.Excerpt, "\n", "\n    "))
	}
	if d.Hint != "" {
		b.WriteString("\n  hint: ")
		b.WriteString(d.Hint)
	}
	return b.String()
}

// maxDiagnostics bounds how many faults are reported: a generated file can have
// one on every line, and nobody reads the five-hundredth.
const maxDiagnostics = 500

// faults collects diagnostics while sources are read and checked.
type faults struct {
	list []fault
	// total counts all faults, those beyond maxDiagnostics included.
	total int
}

// fault is a diagnostic whose source is known, so that the excerpt is cut only
// for those that are shown.
type fault struct {
	Diagnostic
	src *source
	// order sorts the sources: the plan, then the var files, then --set.
	order int
}

func (f *faults) add(src *source, pos Pos, path, hint, format string, args ...any) {
	f.total++
	// Beyond twice the bound there is no telling any more which are the first in
	// the file, but the memory stays bounded.
	if len(f.list) >= 2*maxDiagnostics {
		return
	}
	d := Diagnostic{Pos: pos, Path: clean(path), Message: clean(fmt.Sprintf(format, args...)), Hint: clean(hint)}
	order := 1 << 30
	if src != nil {
		order = src.order
	}
	f.list = append(f.list, fault{Diagnostic: d, src: src, order: order})
}

// err gives the faults sorted by position; nil when there are none.
func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	slices.SortStableFunc(f.list, func(a, b fault) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	var ds Diagnostics
	for i, x := range f.list {
		if i > 0 && x.Pos == f.list[i-1].Pos && x.Message == f.list[i-1].Message {
			f.total--
			continue
		}
		if len(ds) == maxDiagnostics {
			break
		}
		if x.src != nil && x.Line > 0 {
			x.Excerpt = excerpt(x.src.line(x.Line), x.Col)
		}
		ds = append(ds, x.Diagnostic)
	}
	if more := f.total - len(ds); more > 0 {
		ds = append(ds, Diagnostic{Pos: Pos{File: ds[0].File}, Message: fmt.Sprintf("%d more faults are not shown", more)})
	}
	return ds
}

// excerptWidth is how many characters of a line are shown.
const excerptWidth = 100

// excerpt gives a line, cut around column col, and a caret under that column.
func excerpt(line string, col int) string {
	runes := []rune(strings.TrimRight(line, "\r\n"))
	at := min(max(col-1, 0), len(runes))
	from, to := 0, len(runes)
	if len(runes) > excerptWidth {
		from = max(0, min(at-excerptWidth/2, len(runes)-excerptWidth))
		to = from + excerptWidth
	}
	head, tail := "", ""
	if from > 0 {
		head = "…"
	}
	if to < len(runes) {
		tail = "…"
	}
	pad := head + string(runes[from:at])
	caret := strings.Map(func(r rune) rune {
		if isWide(r) {
			return '\u3000' // as wide as the character above it
		}
		return ' '
	}, pad) + "^"
	return clean(head+string(runes[from:to])+tail) + "\n" + caret
}

// isWide tells characters that take two columns of a terminal, roughly.
func isWide(r rune) bool {
	return r >= 0x1100 && unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana)
}

// clean makes text harmless on a terminal and in a log, one character for one:
// control characters, line breaks and characters that change the direction of
// writing become a blank or a question mark.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t', r == '\n', r == '\r', r == '\u2028', r == '\u2029':
			return ' '
		case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r), r == unicode.ReplacementChar:
			return '?'
		}
		return r
	}, s)
}
