package rights

import (
	"cmp"
	"maps"
	"slices"
)

// key is a right of a step without the objects that it is for.
type key struct{ group, resource, verb, url, namespace, step, purpose string }

func (r Rule) key() key {
	return key{r.Group, r.Resource, r.Verb, r.URL, r.Namespace, r.Step, r.For}
}

// compact makes one rule of those that differ by names only, and sorts them. A right to all
// objects has those by name in it; one that is needed is not optional.
func compact(rules []Rule) []Rule {
	byKey := map[key]int{}
	var out []Rule
	for _, r := range rules {
		i, known := byKey[r.key()]
		if !known {
			byKey[r.key()] = len(out)
			r.Names = names(r.Names)
			out = append(out, r)
			continue
		}
		out[i].Optional = out[i].Optional && r.Optional
		out[i].Other = out[i].Other && r.Other
		if out[i].Names != nil {
			out[i].Names = union(out[i].Names, r.Names)
		}
	}
	slices.SortStableFunc(out, compare)
	return out
}

// watchable lets who may list all objects of a resource watch all too, where some are to be
// watched: that tells no more, and several objects are followed by one list and one watch.
func watchable(rules []Rule) []Rule {
	listed := map[key]bool{}
	place := func(r Rule) key { return key{group: r.Group, resource: r.Resource, namespace: r.Namespace} }
	for _, r := range rules {
		if r.Verb == "list" && r.Names == nil {
			listed[place(r)] = true
		}
	}
	for i, r := range rules {
		if r.Verb == "watch" && listed[place(r)] {
			rules[i].Names = nil
		}
	}
	return rules
}

// union is both lists of names; nil, which means all, if one of them is.
func union(a, b []string) []string {
	if a == nil || b == nil {
		return nil
	}
	return names(slices.Concat(a, b))
}

// names are sorted, each once.
func names(all []string) []string {
	if all == nil {
		return nil
	}
	all = slices.Clone(all)
	slices.Sort(all)
	return slices.Compact(all)
}

// compare orders rules by where they hold, and what for.
func compare(a, b Rule) int {
	return cmp.Or(
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.URL, b.URL),
		cmp.Compare(verbOrder(a.Verb), verbOrder(b.Verb)), cmp.Compare(a.Verb, b.Verb), slices.Compare(a.Names, b.Names), cmp.Compare(a.Step, b.Step), cmp.Compare(a.For, b.For),
	)
}

// verbs are in the order in which people write them.
var verbs = []string{"*", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "escalate", "bind"}

// verbOrder is the place of a verb; those that are not known come last.
func verbOrder(verb string) int {
	if i := slices.Index(verbs, verb); i >= 0 {
		return i
	}
	return len(verbs)
}

// Distinct are the rights that rules are about, whoever needs them and what for: each verb
// on a resource and place once, or once for all and once for names. Step and For are those
// of the first rule that is not optional.
func Distinct(rules []Rule) []Rule {
	type bare struct {
		group, resource, verb, url, namespace string
		all                                   bool
	}
	at := map[bare]int{}
	var out []Rule
	for _, r := range rules {
		b := bare{r.Group, r.Resource, r.Verb, r.URL, r.Namespace, r.Names == nil}
		i, known := at[b]
		if !known {
			at[b] = len(out)
			out = append(out, r)
			continue
		}
		if out[i].Optional && !r.Optional {
			r.Names = union(out[i].Names, r.Names)
			out[i] = r
			continue
		}
		out[i].Names = union(out[i].Names, r.Names)
	}
	all := slices.Clone(out)
	return slices.DeleteFunc(out, func(r Rule) bool {
		i, any := at[bare{r.Group, r.Resource, r.Verb, r.URL, r.Namespace, true}]
		return r.Names != nil && any && (r.Optional || !all[i].Optional)
	})
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
