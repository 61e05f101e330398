package words

import "strings"

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
