package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// opener are the ways to the clusters that a plan uses, by the plan's names.
type opener struct {
	plan      *plan.Plan
	flags     *genericclioptions.ConfigFlags
	userAgent string
	byName    map[string]*Conn
	// path leads to the link that is being made, by the clusters that hold
	// kubeconfigs.
	path []string
}

// Open reads the kubeconfigs of all clusters that are used, as far as they
// are on this machine. All faults are told at once; nobody is connected to.
func Open(p *plan.Plan, flags *genericclioptions.ConfigFlags, userAgent string) (map[string]*Conn, error) {
	ls := &opener{plan: p, flags: flags, userAgent: userAgent, byName: map[string]*Conn{}}
	var errs []error
	for _, name := range usedClusters(p) {
		if _, err := ls.conn(name); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return ls.byName, ls.checkFlags()
}

// usedClusters are the clusters that the plan's steps work on, and those that they
// ask for the values of variables, their own plan's if they are included.
func usedClusters(p *plan.Plan) []string {
	var used []string
	for _, s := range p.Steps {
		if s.Skip != "" {
			continue
		}
		used = append(used, p.StepCluster(s))
		for _, ask := range s.Deferred() {
			if ask.From != "" && ask.Key.Name != "" { // else a step's, or nobody's: see load.Options.Unknown
				used = append(used, cmp.Or(ask.Key.Cluster, p.Defaults.Cluster))
			}
		}
	}
	slices.Sort(used)
	return slices.Compact(used)
}

// conn makes the link to a cluster, and those to the clusters that hold its
// kubeconfig.
func (ls *opener) conn(name string) (*Conn, error) {
	if l := ls.byName[name]; l != nil {
		return l, nil
	}
	if slices.Contains(ls.path, name) {
		return nil, UserError(fmt.Errorf("cluster %s: its kubeconfig is in a Secret of the cluster itself: %s",
			name, strings.Join(append(ls.path, name), " → ")))
	}
	spec, known := ls.plan.Clusters[name]
	if name != "" && !known {
		return nil, UserError(fmt.Errorf("the plan has no cluster %q", name))
	}
	l := &Conn{name: name, spec: spec, userAgent: ls.userAgent}
	var err error
	if ref := spec.KubeconfigSecret; ref != nil {
		ls.path = append(ls.path, name)
		l.holder, err = ls.conn(cmp.Or(ref.Cluster, ls.plan.Defaults.Cluster))
		ls.path = ls.path[:len(ls.path)-1]
	} else {
		l.access, err = ls.access(name, spec)
	}
	if err != nil {
		return nil, err
	}
	ls.byName[name] = l
	return l, nil
}

// access reads the kubeconfig of a cluster where that is on this machine.
func (ls *opener) access(name string, spec plan.Cluster) (*Access, error) {
	var (
		a   *Access
		err error
	)
	switch {
	case spec.Kubeconfig != "":
		a, err = FromFile(ls.plan.Abs(spec.Kubeconfig), spec.Context)
	case spec.Context != "":
		a, err = FromFlags(withContext(ls.flags, spec.Context))
	default:
		a, err = FromFlags(ls.flags)
	}
	switch {
	case err != nil && name != "":
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	case err != nil:
		return nil, err
	}
	return a.As(name, spec.Namespace), nil
}

// checkFlags refuses flags that pick a cluster when no step works on that: the
// user expects them to do something.
func (ls *opener) checkFlags() error {
	for _, l := range ls.byName {
		if l.spec.Context == "" && l.spec.Kubeconfig == "" && l.spec.KubeconfigSecret == nil {
			return nil
		}
	}
	f := ls.flags
	for _, flag := range []struct {
		name  string
		value *string
	}{
		{"--context", f.Context},
		{"--namespace", f.Namespace},
		{"--cluster", f.ClusterName},
		{"--user", f.AuthInfoName},
		{"--server", f.APIServer},
		{"--token", f.BearerToken},
	} {
		if flag.value != nil && *flag.value != "" {
			err := fmt.Errorf("%s has no effect: it is for the cluster of the command line, and no step of the plan works on that", flag.name)
			return UserError(runner.WithHint(err, "leave it out; the plan's clusters say which contexts are used"))
		}
	}
	return nil
}
