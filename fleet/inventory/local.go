package inventory

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/fleet"
)

// contexts finds clusters by the contexts of a kubeconfig.
func (m *Management) contexts(s fleet.ContextSource) (Found, error) {
	path := ""
	if s.Kubeconfig != "" {
		path = abs(m.Dir, s.Kubeconfig)
	}
	raw, err := m.kubeconfig(path)
	if err != nil {
		return Found{}, err
	}
	names := slices.Sorted(maps.Keys(raw.Contexts))
	taken := map[string]bool{}
	for _, want := range s.Names {
		fits := matcher(want)
		any := false
		for _, name := range names {
			if fits(name) {
				taken[name], any = true, true
			}
		}
		if !any {
			return Found{}, usage(fmt.Errorf("no context of the kubeconfig is named %q", want), contextNames(*raw))
		}
	}
	var found Found
	for _, name := range names {
		if len(s.Names) > 0 && !taken[name] {
			continue
		}
		c := fleet.Cluster{
			Name: name, Source: fleet.Source{Kind: KindContexts}, Access: fleet.Access{Kubeconfig: path, Context: name},
		}
		if _, err := m.local(c.Access); err != nil {
			found.Refused = append(found.Refused, Refused{c, err})
			continue
		}
		found.Clusters = append(found.Clusters, c)
	}
	if len(names) == 0 {
		return found, usage(fmt.Errorf("the kubeconfig has no contexts"), "set KUBECONFIG or --kubeconfig to a kubeconfig with those of the fleet")
	}
	return found, nil
}

// matcher reports whether names fit a pattern with * and ?.
func matcher(pattern string) func(string) bool {
	quoted := regexp.QuoteMeta(pattern)
	quoted = strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(quoted)
	is := regexp.MustCompile(`^(?s:` + quoted + `)$`)
	return is.MatchString
}

// list takes the clusters that the fleet file lists.
func (m *Management) list(ctx context.Context, list []fleet.Listed) (Found, error) {
	var found Found
	for _, l := range list {
		c := fleet.Cluster{
			Name: l.Name, Labels: l.Labels, Annotations: l.Annotations, Source: fleet.Source{Kind: KindList},
			Access: fleet.Access{Context: l.Context, DefaultNamespace: l.Namespace},
		}
		switch {
		case l.KubeconfigSecret != nil:
			ref := *l.KubeconfigSecret
			if ref.Namespace == "" { // a worker's default may be another
				holder, err := m.client(ctx, ref.Cluster)
				if err != nil {
					return Found{}, err
				}
				ref.Namespace = holder.namespace
			}
			if ref.Key == "" {
				ref.Key = defaultKey
			}
			c.Access.Secret, c.Source.Cluster = &ref, ref.Cluster
		default:
			if l.Kubeconfig != "" {
				c.Access.Kubeconfig = abs(m.Dir, l.Kubeconfig)
			}
			if _, err := m.local(c.Access); err != nil {
				found.Refused = append(found.Refused, Refused{c, err})
				continue
			}
		}
		found.Clusters = append(found.Clusters, c)
	}
	return found, nil
}
