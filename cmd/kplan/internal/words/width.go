package words

import (
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// Width returns how many cells of a terminal s takes.
func Width(s string) int {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return ansi.StringWidth(s)
		}
	}
	return len(s)
}

// Cut returns s if it fits into so many cells. Else it returns what does of its start
// and mark, which tells that something is missing.
func Cut(s string, width int, mark string) string {
	switch {
	case Width(s) <= width:
		return s
	case width <= 0:
		return ""
	}
	return ansi.Truncate(s, width, mark)
}

// Pad returns s with spaces after it, so that it takes at least so many cells.
func Pad(s string, width int) string { return s + strings.Repeat(" ", max(width-Width(s), 0)) }

// Wrap breaks s into lines of at most width cells: at spaces where there are any, else
// in the middle of a word. Lines of s itself stay lines.
func Wrap(s string, width int) []string {
	width = max(width, 8)
	var lines []string
	for text := range strings.SplitSeq(strings.TrimRight(s, "\n "), "\n") {
		if Width(text) <= width {
			lines = append(lines, text)
			continue
		}
		for line := range strings.SplitSeq(ansi.Wrap(text, width, "/,"), "\n") {
			lines = append(lines, strings.TrimRight(line, " "))
		}
	}
	return lines
}

// Fill writes the words of s anew, on lines of at most width cells that begin with
// indent; one line if width is 0. No word is broken, so that it can be copied.
func Fill(s string, width int, indent string) string {
	var b strings.Builder
	used := 0
	for word := range strings.FieldsSeq(s) {
		n := Width(word)
		switch {
		case used > 0 && (width == 0 || used+1+n <= width):
			b.WriteByte(' ')
			used += 1 + n
		default:
			if used > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(indent)
			used = Width(indent) + n
		}
		b.WriteString(word)
	}
	return b.String()
}

// Indent returns s with prefix before each line but the first, and without spaces at
// its end.
func Indent(s, prefix string) string {
	return strings.ReplaceAll(strings.TrimRightFunc(s, unicode.IsSpace), "\n", "\n"+prefix)
}

// Table returns rows of cells below each other, with two spaces between columns.
// Unless it is nil, paint colours the cell at a row and column; pad are the spaces
// that follow it.
func Table(rows [][]string, paint func(row, column int, cell, pad string) string) string {
	var widths []int
	for _, row := range rows {
		widths = append(widths, make([]int, max(len(row)-len(widths), 0))...)
		for j, cell := range row {
			widths[j] = max(widths[j], Width(cell))
		}
	}
	var b strings.Builder
	for i, row := range rows {
		var line strings.Builder
		for j, cell := range row {
			pad := strings.Repeat(" ", widths[j]-Width(cell))
			if paint != nil {
				line.WriteString(paint(i, j, cell, pad))
			} else {
				line.WriteString(cell + pad)
			}
			line.WriteString("  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}
