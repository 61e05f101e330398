// Package nearest finds the name that a mistyped one most likely means. It reports
// nothing by itself.
package nearest

import (
	"fmt"
	"strings"
)

// most bounds how many names a Finder compares, so that a generated plan full of
// faults is still refused quickly.
const most = 1_000_000

// Finder compares names. The zero value is ready for use.
type Finder struct{ compared int }

// Find returns the candidate that a mistyped name most likely means; "" when none
// is near: at most two edits away (one for names of three letters, none for
// shorter ones), or a prefix one of the other.
func (f *Finder) Find(name string, candidates []string) string {
	if f.compared += len(candidates); f.compared > most || len(name) < 3 {
		return ""
	}
	limit := 2
	if len(name) == 3 {
		limit = 1
	}
	best, bestDistance := "", limit+1
	folded := fold(name)
	for _, k := range candidates {
		if d := distance(folded, fold(k), bestDistance-1); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	if best != "" {
		return best
	}
	for _, k := range candidates {
		if len(k) >= 3 && (strings.HasPrefix(k, name) || strings.HasPrefix(name, k)) {
			return k
		}
	}
	return ""
}

// Hint asks whether the nearest candidate was meant; "" when none is near.
func (f *Finder) Hint(name string, candidates []string) string {
	near := f.Find(name, candidates)
	if near == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", near)
}

// fold makes valuesFiles, values-files and values_files the same.
func fold(s string) string { return strings.ToLower(joined.Replace(s)) }

var joined = strings.NewReplacer("_", "", "-", "")

// distance is the Levenshtein distance of a and b in bytes, or limit+1 when it
// is more than limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit || limit < 0 {
		return limit + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal, low := row[0], i
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
			low = min(low, row[j])
		}
		if low > limit {
			return limit + 1
		}
	}
	return min(row[len(b)], limit+1)
}
