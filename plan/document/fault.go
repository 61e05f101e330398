package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan/redact"
)

// Fault is one thing that is wrong with a file.
type Fault struct {
	// Code is the class of the fault (default CodeInvalid).
	Code Code
	// At leads to the value that is wrong.
	At Path
	// Hint says what to do about it.
	Hint string
}

// maxDiagnostics bounds how many faults are reported: a generated file can have
// one on every line, and nobody reads the five-hundredth.
const maxDiagnostics = 500

// Faults collects the faults of files while these are read and checked.
type Faults struct {
	// Secrets is what no message, hint or line may show; it may be nil.
	Secrets *redact.Set

	list []found
	// total counts all faults, those beyond maxDiagnostics included.
	total int
}

// found is a diagnostic whose source is known, so that the excerpt is cut only
// for those that are shown.
type found struct {
	Diagnostic
	src *Source
	// order sorts the sources: the plan, then the var files, then --set.
	order int
}

// Full reports whether no more faults are kept, only counted. Beyond twice the
// bound there is no telling which are the first in the file, but time and memory
// stay bounded.
func (f *Faults) Full() bool { return len(f.list) >= 2*maxDiagnostics }

// Skip counts n faults that nobody looks for any more, as there are too many.
func (f *Faults) Skip(n int) { f.total += n }

// Add adds a fault at a position of a source, which is nil for an argument of the
// command line.
func (f *Faults) Add(src *Source, pos Pos, x Fault, format string, args ...any) {
	f.total++
	if f.Full() {
		return
	}
	order := 1 << 30
	if src != nil {
		order = src.Order
	}
	d := Diagnostic{Pos: pos, Code: cmp.Or(x.Code, CodeInvalid), Path: x.At.String(), Message: fmt.Sprintf(format, args...), Hint: x.Hint}
	f.list = append(f.list, found{Diagnostic: d, src: src, order: order})
}

// First returns the message of the fault that was found first; "" when there is none.
func (f *Faults) First() string {
	if len(f.list) == 0 {
		return ""
	}
	return f.list[0].Message
}

// Err returns the faults as Diagnostics, sorted by position; nil when there are none.
func (f *Faults) Err() error {
	if len(f.list) == 0 {
		return nil
	}
	slices.SortStableFunc(f.list, func(a, b found) int {
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
		if x.src != nil && x.Line > 0 && !x.src.Private {
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
func (f *Faults) shown(text string) string { return cleaned(Cut(f.Secrets.Text(text), maxWords)) }

// Reporter reports the faults of one source.
type Reporter struct {
	*Faults
	Source *Source
}

// Report reports a fault of the value at its path.
func (r Reporter) Report(f Fault, format string, args ...any) {
	if r.Full() {
		r.Skip(1)
		return
	}
	if n, _ := r.Source.Node(f.At); n != nil && strings.HasPrefix(n.Value, "${{") && f.Hint == "" {
		f.Hint = "the value is that of " + n.Value
	}
	r.Add(r.Source, r.Source.ValuePos(f.At), f, format, args...)
}

// ReportField reports a fault of the field at its path as a whole: where its name stands.
func (r Reporter) ReportField(f Fault, format string, args ...any) {
	if r.Full() {
		r.Skip(1)
		return
	}
	r.Add(r.Source, r.Source.KeyPos(f.At), f, format, args...)
}

// Describe says in words what the value at a path is. A text that an expression
// made is not shown: it may be a secret.
func (r Reporter) Describe(v any, at Path) string {
	if n, _ := r.Source.Node(at); n != nil && strings.Contains(n.Value, "${{") {
		return DescribeType(v)
	}
	return Describe(v)
}
