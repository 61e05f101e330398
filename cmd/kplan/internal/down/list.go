// Package down shows what kplan down takes away. It does not find that out.
package down

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/steps/teardown"
)

// List is what goes of a plan, and what stays.
type List struct {
	Plan  string          `json:"plan"`
	Steps []teardown.Step `json:"steps"`
	// Stays says which steps that stay need one that goes.
	Stays []string `json:"stays,omitempty"`
}

// Objects counts those that go.
func (l List) Objects() int {
	n := 0
	for _, s := range l.Steps {
		n += len(s.Goes)
	}
	return n
}

// Text shows the list to people, in lines of a width; 0 means that any will do.
func (l List) Text(width int) string {
	var b strings.Builder
	rows := [][]string{}
	for _, s := range l.Steps {
		for i, part := range parts(s) {
			row := []string{"", part}
			if i == 0 {
				row[0] = name(s)
			}
			rows = append(rows, row)
		}
	}
	if len(rows) > 0 {
		rows = append([][]string{{"STEP", "GOES"}}, rows...)
		b.WriteString(words.Table(rows, func(_, _ int, cell, pad string) string { return cell + pad }))
	}
	if kept := l.kept(); len(kept) > 0 {
		b.WriteString("\nstays:\n")
		for _, k := range kept {
			b.WriteString(fill(k, width))
		}
	}
	for _, s := range l.Steps {
		if s.Note != "" {
			b.WriteString(fill("step "+name(s)+": "+s.Note, width))
		}
	}
	for _, s := range l.Stays {
		b.WriteString(fill("warning: step "+s, width))
	}
	if n := l.Objects(); n > 0 {
		fmt.Fprintf(&b, "\n%s of %s\n", words.Count(n, "object"), words.Count(l.going(), "step"))
	}
	return words.Clean(b.String())
}

func (l List) going() int {
	n := 0
	for _, s := range l.Steps {
		if len(s.Goes) > 0 {
			n++
		}
	}
	return n
}

func fill(text string, width int) string {
	if width > 0 {
		text = words.Fill(text, width-2, "  ")
	}
	return "  " + strings.TrimRight(text, "\n") + "\n"
}

func name(s teardown.Step) string {
	if s.Cluster == "" || strings.Contains(s.Name, "[") {
		return s.Name
	}
	return s.Name + " (" + s.Cluster + ")"
}

// parts are the lines about what goes of a step.
func parts(s teardown.Step) []string {
	if len(s.Goes) == 0 {
		if s.Release != "" {
			return []string{fmt.Sprintf("release %s (%s)", s.Release, s.Chart)}
		}
		return nil
	}
	var plain []string
	why := map[string][]string{}
	for _, g := range s.Goes {
		if g.Why == "" {
			plain = append(plain, g.Object)
		} else {
			why[g.Why] = append(why[g.Why], g.Object)
		}
	}
	first := some(plain)
	if s.Release != "" {
		first = fmt.Sprintf("release %s (%s), %s", s.Release, s.Chart, words.Count(len(plain), "object"))
	}
	lines := []string{}
	if first != "" {
		lines = append(lines, first)
	}
	for _, reason := range sorted(why) {
		lines = append(lines, some(why[reason])+": "+reason)
	}
	return lines
}

// some names up to three objects, and counts more by their kinds.
func some(objects []string) string {
	if len(objects) <= 3 {
		return strings.Join(objects, ", ")
	}
	counts := map[string]int{}
	for _, o := range objects {
		kind, _, _ := strings.Cut(o, "/")
		counts[kind]++
	}
	var all []string
	for _, kind := range sorted(counts) {
		all = append(all, fmt.Sprintf("%d %s", counts[kind], kind))
	}
	return strings.Join(all, ", ")
}

// kept are lines about what stays, those of one step and reason together.
func (l List) kept() []string {
	var lines []string
	for _, s := range l.Steps {
		by := map[string][]string{}
		for _, k := range s.Kept {
			by[k.Reason] = append(by[k.Reason], k.Object)
		}
		for _, reason := range sorted(by) {
			lines = append(lines, fmt.Sprintf("%s: %s (%s)", name(s), some(by[reason]), reason))
		}
	}
	return lines
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, cmp.Compare)
	return keys
}
