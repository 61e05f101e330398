package webhooks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/webhook"
)

// group is the webhooks that a row of the table stands for. There is at least one.
type group []Webhook

// groups are the rows of the table, in the order of their first webhooks.
func (s Style) groups(all []Webhook) []group {
	if s.Fold && !s.Wide {
		return fold(all)
	}
	groups := make([]group, len(all))
	for i := range all {
		groups[i] = all[i : i+1]
	}
	return groups
}

// fold groups webhooks of one configuration that are called at one Service and
// stand alike. The conversion webhooks of several CRDs, each of which configures its
// own, are grouped by their Service and owner.
func fold(all []Webhook) []group {
	type key struct{ kind, configuration, service, owner, stands string }
	var groups []group
	place := map[key]int{}
	for _, w := range all {
		k := key{string(w.Kind), w.Configuration, w.called(), owner(w), w.Lowest.String()}
		if w.Kind == webhook.Conversion {
			k.configuration = ""
		}
		for _, r := range w.Ladder {
			k.stands += " " + string(r.State)
		}
		i, known := place[k]
		if !known {
			i = len(groups)
			place[k] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], w)
	}
	return groups
}

// name is that of the only webhook, or of what configures all of them.
func (g group) name() string {
	switch {
	case len(g) == 1:
		return g[0].ID()
	case g[0].Kind == webhook.Conversion:
		return fmt.Sprintf("%s +%d", g[0].ID(), len(g)-1)
	}
	return fmt.Sprintf("%s (%d)", g[0].Configuration, len(g))
}

// guards are the rules of all, each once.
func (g group) guards() []string {
	var all []string
	for _, w := range g {
		for _, text := range w.Guards {
			if !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	return all
}

// policy is the failure policy; both where they differ.
func (g group) policy() string {
	var all []string
	for _, w := range g {
		if p := cmp.Or(w.Policy, "Fail"); !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}
