package fleet

import (
	"slices"
	"strings"
)

// Own are the names that a cluster of the rollout alone has: of the values of its variables,
// its labels and its annotations those texts that no other cluster has. Causes are told
// without them, so that clusters which failed alike have one.
func (r *Rollout) Own(name string) []string {
	c := r.Cluster(name)
	if c == nil {
		return nil
	}
	own := map[string]bool{}
	for text := range textsOf(*c) {
		own[text] = true
	}
	for i := range r.Clusters {
		if r.Clusters[i].Name == name || len(own) == 0 {
			continue
		}
		for text := range textsOf(r.Clusters[i]) {
			delete(own, text)
		}
	}
	if _, short, is := strings.Cut(name, "/"); is {
		own[short] = true
	}
	all := make([]string, 0, len(own))
	for text := range own {
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// textsOf yields texts that a cluster's values have.
func textsOf(c Cluster) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		var walk func(v any) bool
		walk = func(v any) bool {
			switch v := v.(type) {
			case string:
				return yield(v)
			case map[string]any:
				for _, x := range v {
					if !walk(x) {
						return false
					}
				}
			case []any:
				for _, x := range v {
					if !walk(x) {
						return false
					}
				}
			}
			return true
		}
		if !walk(c.Vars) {
			return
		}
		for _, texts := range []map[string]string{c.Labels, c.Annotations} {
			for _, text := range texts {
				if !yield(text) {
					return
				}
			}
		}
	}
}
