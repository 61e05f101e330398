package changes

import (
	"fmt"
	"slices"
	"strings"
)

// Lines is a unified diff of two texts, with context lines around what differs. Of
// texts that differ in very much it shows the one and then the other.
func Lines(before, after string, context int) []string {
	ops := edits(split(before), split(after))
	var out []string
	for i := 0; i < len(ops); {
		if ops[i].sign == ' ' {
			i++
			continue
		}
		from := max(0, i-context)
		to, quiet := i, 0 // the end of the hunk, and how many unchanged lines are at it
		for to < len(ops) && quiet <= 2*context {
			if ops[to].sign == ' ' {
				quiet++
			} else {
				quiet = 0
			}
			to++
		}
		to -= max(0, quiet-context)
		out = append(out, hunk(ops, from, to)...)
		i = to
	}
	return out
}

// edit is a line that stays (' '), goes ('-') or comes ('+').
type edit struct {
	sign byte
	text string
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

func hunk(ops []edit, from, to int) []string {
	a, b := 1, 1
	for _, e := range ops[:from] {
		if e.sign != '+' {
			a++
		}
		if e.sign != '-' {
			b++
		}
	}
	gone, come := 0, 0
	lines := []string{""}
	for _, e := range ops[from:to] {
		if e.sign != '+' {
			gone++
		}
		if e.sign != '-' {
			come++
		}
		lines = append(lines, string(e.sign)+e.text)
	}
	if gone == 0 {
		a--
	}
	if come == 0 {
		b--
	}
	lines[0] = fmt.Sprintf("@@ -%d,%d +%d,%d @@", a, gone, b, come)
	return lines
}

// most bounds the work of comparing: lines of the one times lines of the other.
const most = 4 << 20

// edits leads from one text to the other by the longest lines that they share.
func edits(a, b []string) []edit {
	var head, tail []edit
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head = append(head, edit{' ', a[0]})
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail = append(tail, edit{' ', a[len(a)-1]})
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	out := append(head, middle(a, b)...)
	for _, e := range slices.Backward(tail) {
		out = append(out, e)
	}
	return out
}

func middle(a, b []string) []edit {
	var out []edit
	if len(a)*len(b) > most {
		for _, line := range a {
			out = append(out, edit{'-', line})
		}
		for _, line := range b {
			out = append(out, edit{'+', line})
		}
		return out
	}
	// shared[i][j] is how many lines a[i:] and b[j:] share at most.
	shared := make([][]int32, len(a)+1)
	for i := range shared {
		shared[i] = make([]int32, len(b)+1)
	}
	for i, x := range slices.Backward(a) {
		for j, y := range slices.Backward(b) {
			if x == y {
				shared[i][j] = shared[i+1][j+1] + 1
			} else {
				shared[i][j] = max(shared[i+1][j], shared[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, edit{' ', a[i]})
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || shared[i+1][j] >= shared[i][j+1]):
			out = append(out, edit{'-', a[i]})
			i++
		default:
			out = append(out, edit{'+', b[j]})
			j++
		}
	}
	return out
}
