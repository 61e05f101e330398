package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// opener makes the ways to the clusters that a plan uses, by the plan's names.
type opener struct {
	plan      *plan.Plan
	flags     *genericclioptions.ConfigFlags
	userAgent string
	given     map[string]Given
	byName    map[string]*Conn
}

// Open reads the kubeconfigs of all clusters that are used, as far as they
// are on this machine. All faults are told at once; nobody is connected to.
func Open(p *plan.Plan, flags *genericclioptions.ConfigFlags, userAgent string) (map[string]*Conn, error) {
	return OpenGiven(p, flags, userAgent, nil)
}

// OpenGiven is Open where kubeconfigs are given for some clusters, by the plan's names: they
// are read when a cluster is connected to.
func OpenGiven(p *plan.Plan, flags *genericclioptions.ConfigFlags, userAgent string, given map[string]Given) (map[string]*Conn, error) {
	o := &opener{plan: p, flags: flags, userAgent: userAgent, given: given, byName: map[string]*Conn{}}
	var errs []error
	for _, name := range usedClusters(p) {
		if _, err := o.conn(name, nil); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return o.byName, o.checkFlags()
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

// conn makes the way to a cluster, and those to the clusters that hold its
// kubeconfig; path are the clusters whose kubeconfigs led here.
func (o *opener) conn(name string, path []string) (*Conn, error) {
	if c := o.byName[name]; c != nil {
		return c, nil
	}
	over := append(slices.Clip(path), name)
	if slices.Contains(path, name) {
		return nil, UserError(fmt.Errorf("cluster %s: its kubeconfig is in a Secret of the cluster itself: %s", name, strings.Join(over, " → ")))
	}
	spec, known := o.plan.Clusters[name]
	if name != "" && !known {
		return nil, UserError(fmt.Errorf("the plan has no cluster %q", name))
	}
	c := &Conn{name: name, spec: spec, userAgent: o.userAgent}
	var err error
	given, is := o.given[name]
	if is {
		c.given = &given
	}
	switch ref := spec.KubeconfigSecret; {
	case is && given.Flags != nil:
		c.access, err = given.local(name, spec)
	case is:
	case ref != nil:
		c.holder, err = o.conn(cmp.Or(ref.Cluster, o.plan.Defaults.Cluster), over)
	default:
		c.access, err = o.access(name, spec)
	}
	if err != nil {
		return nil, err
	}
	o.byName[name] = c
	return c, nil
}

// access reads the kubeconfig of a cluster where that is on this machine.
func (o *opener) access(name string, spec plan.Cluster) (*Access, error) {
	var (
		a   *Access
		err error
	)
	switch {
	case spec.Kubeconfig != "":
		a, err = FromFile(o.plan.Abs(spec.Kubeconfig), spec.Context)
	case spec.Context != "":
		a, err = FromFlags(withContext(o.flags, spec.Context))
	default:
		a, err = FromFlags(o.flags)
	}
	switch {
	case err != nil && name != "":
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	case err != nil:
		return nil, err
	}
	return a.As(name, spec.Namespace), nil
}

// Home names the cluster that keeps the records of a plan's runs: one whose kubeconfig is
// given, else that of the command line if a step works on it, else that of defaults.cluster, else that of the first step whose
// kubeconfig is on this machine. It is not known when there is none.
func Home(p *plan.Plan, conns map[string]*Conn) (name string, known bool) {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(conns)) {
		if conns[name].Given() {
			names = append(names, name)
		}
	}
	names = append(names, "", p.Defaults.Cluster)
	for _, s := range p.Steps {
		names = append(names, p.StepCluster(s))
	}
	for _, name := range append(names, slices.Sorted(maps.Keys(conns))...) { // the last have the kubeconfigs of others
		if c := conns[name]; c != nil && c.Local() {
			return name, true
		}
	}
	return "", false
}

// checkFlags refuses flags that pick a cluster when no step works on that: the
// user expects them to do something.
func (o *opener) checkFlags() error {
	if len(o.given) > 0 { // the flags are also for who finds kubeconfigs
		return nil
	}
	for _, l := range o.byName {
		if l.spec.Context == "" && l.spec.Kubeconfig == "" && l.spec.KubeconfigSecret == nil {
			return nil
		}
	}
	f := o.flags
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
