package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kplan-dev/kplan/plan/redact"
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
	// Code is the class of the fault.
	Code Code `json:"code"`
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

// maxWords bounds a message and a hint, in characters: they quote the file.
const maxWords = 400

// faults collects diagnostics while sources are read and checked.
type faults struct {
	// secrets is what no message, hint or line may show; it may be nil.
	secrets *redact.Set
	list    []fault
	// total counts all faults, those beyond maxDiagnostics included.
	total int
	// next is the class of the fault that is added next; see as.
	next Code
}

// fault is a diagnostic whose source is known, so that the excerpt is cut only
// for those that are shown.
type fault struct {
	Diagnostic
	src *source
	// order sorts the sources: the plan, then the var files, then --set.
	order int
}

// full tells whether no more faults are kept, only counted. Beyond twice the
// bound there is no telling which are the first in the file, but time and memory
// stay bounded.
func (f *faults) full() bool { return len(f.list) >= 2*maxDiagnostics }

func (f *faults) add(src *source, pos Pos, path, hint, format string, args ...any) {
	if f.full() {
		f.total++
		return
	}
	f.total++
	code := cmp.Or(f.next, CodeInvalid)
	f.next = ""
	d := Diagnostic{Pos: pos, Code: code, Path: path, Message: fmt.Sprintf(format, args...), Hint: hint}
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
		if x.src != nil && x.Line > 0 && !x.src.private {
			x.Excerpt = x.src.excerpt(x.Pos)
		}
		x.File, x.Path, x.Message, x.Hint = f.shown(x.File), f.shown(x.Path), f.shown(x.Message), f.shown(x.Hint)
		ds = append(ds, x.Diagnostic)
	}
	if more := f.total - len(ds); more > 0 {
		ds = append(ds, Diagnostic{Pos: Pos{File: ds[0].File}, Code: CodeInvalid, Message: fmt.Sprintf("%d more faults are not shown", more)})
	}
	return ds
}

// shown makes a text fit for a diagnostic. Secrets go first: what was cut or
// cleaned is no longer found.
func (f *faults) shown(text string) string { return clean(cut(f.secrets.Text(text), maxWords)) }

// excerptWidth is how many characters of a line are shown.
const excerptWidth = 100

// excerpt gives the line of a position, cut around the column, and a caret under
// that column. It looks at the characters near the column only: a line may be as
// long as the file.
func (s *source) excerpt(p Pos) string {
	line, at := s.redacted(p)
	before, after := lastRunes(line[:at], excerptWidth), firstRunes(line[at:], excerptWidth)
	if room := excerptWidth - len(before) - len(after); room < 0 {
		half := excerptWidth / 2
		keep := max(half, excerptWidth-len(after))
		before = before[max(0, len(before)-keep):]
		after = after[:min(len(after), excerptWidth-len(before))]
	}
	head, tail := "", ""
	if len(string(before)) < at {
		head = "…"
	}
	if len(string(after)) < len(line)-at {
		tail = "…"
	}
	caret := strings.Map(func(r rune) rune {
		if isWide(r) {
			return '\u3000' // as wide as the character above it
		}
		return ' '
	}, head+string(before)) + "^"
	return clean(head+string(before)+string(after)+tail) + "\n" + caret
}

// firstRunes gives at most n characters from the start of s.
func firstRunes(s []byte, n int) []rune {
	if len(s) > n*utf8.UTFMax {
		s = s[:n*utf8.UTFMax]
	}
	r := []rune(string(s))
	return r[:min(n, len(r))]
}

// lastRunes gives at most n characters from the end of s.
func lastRunes(s []byte, n int) []rune {
	if len(s) > n*utf8.UTFMax {
		s = s[len(s)-n*utf8.UTFMax:]
	}
	r := []rune(string(s))
	return r[max(0, len(r)-n):]
}

// isWide tells characters that take two columns of a terminal, roughly.
func isWide(r rune) bool {
	return r >= 0x1100 && unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana)
}

// Clean makes text fit for a message on a terminal and in a log: control characters
// and line breaks become a blank or a question mark, and it is cut to a length that
// people read.
func Clean(s string) string { return clean(cut(s, maxWords)) }

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
