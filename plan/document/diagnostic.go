// Package document is a YAML file with positions: it reads one strictly, finds
// where a value stands in it, and shows the line of what is wrong there.
//
// It does not know what the values mean: see package load for those of a plan.
package document

import (
	"fmt"
	"strings"
	"unicode"
)

// Pos is a place in a file. Line and Col count from 1, Col in characters; a
// Line of 0 means the file as a whole, or an argument of the command line.
type Pos struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	Col  int    `json:"col,omitempty"`
}

// String returns file:line:col, as editors and terminals link it.
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
	b.WriteString(cleaned(d.Pos.String()))
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

// maxWords bounds a message and a hint, in characters: they quote the file.
const maxWords = 400

// Clean makes text fit for a message on a terminal and in a log: control characters
// and line breaks become a blank or a question mark, and it is cut to a length that
// people read.
func Clean(s string) string { return cleaned(Cut(s, maxWords)) }

// clean makes text harmless on a terminal and in a log, one character for one:
// control characters, line breaks and characters that change the direction of
// writing become a blank or a question mark.
func cleaned(s string) string {
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

// Cut shortens a text to so many characters, for a message.
func Cut(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
