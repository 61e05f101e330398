package fleet

import (
	"maps"
	"slices"
	"strings"
)

// Own are for each cluster of the rollout the names that it alone has: of the values of its
// variables, its labels and its annotations those texts that no other cluster has. Causes are
// told without them, so that clusters which failed alike have one.
func (r *Rollout) Own() map[string][]string {
	has := make([]map[string]bool, len(r.Clusters))
	count := map[string]int{}
	for i, c := range r.Clusters {
		has[i] = map[string]bool{}
		addTexts(has[i], c.Vars)
		for _, texts := range []map[string]string{c.Labels, c.Annotations} {
			for text := range maps.Values(texts) {
				has[i][text] = true
			}
		}
		for text := range has[i] {
			count[text]++
		}
	}
	own := make(map[string][]string, len(r.Clusters))
	for i, c := range r.Clusters {
		var names []string
		for text := range has[i] {
			if count[text] == 1 && len(r.Clusters) > 1 {
				names = append(names, text)
			}
		}
		if _, short, is := strings.Cut(c.Name, "/"); is {
			names = append(names, short)
		}
		slices.Sort(names)
		own[c.Name] = names
	}
	return own
}

// addTexts adds all texts in a value.
func addTexts(texts map[string]bool, v any) {
	switch v := v.(type) {
	case string:
		texts[v] = true
	case map[string]any:
		for _, x := range v {
			addTexts(texts, x)
		}
	case []any:
		for _, x := range v {
			addTexts(texts, x)
		}
	}
}
