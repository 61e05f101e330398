package plan

import (
	"maps"
	"slices"
	"strings"
)

// nearestBudget bounds how many names are compared for hints in one plan, so
// that a generated plan full of faults is still refused quickly.
const nearestBudget = 1_000_000

// nearest gives the candidate that a mistyped name most likely means; "" when
// none is near: at most two edits away (one for names of three letters, none for
// shorter ones), or a prefix one of the other.
func (c *checker) nearest(name string, candidates []string) string {
	if c.budget -= len(candidates); c.budget < 0 || name == "" {
		return ""
	}
	limit := 2
	switch {
	case len(name) < 3:
		return ""
	case len(name) == 3:
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

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
