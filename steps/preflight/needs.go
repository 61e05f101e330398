package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
	"github.com/kplan-dev/kplan/steps/rights"
)

// Needed are the rights that a plan needs on one cluster.
type Needed struct {
	// Cluster is the cluster's name in the plan; "" is that of the command line.
	Cluster string
	// About names it for people.
	About string
	Rules []rights.Rule
	Notes []rights.Note
	// Makes are the namespaces that the plan makes, or kplan for it, and that are not there.
	Makes map[string]bool
}

// Needs computes the rights that a plan needs on each of its clusters, in the order of their
// names in the plan. Clusters are asked for what they serve; one whose kubeconfig is not
// there yet is taken to serve what Kubernetes does. Records says that runs are recorded in a
// cluster.
func Needs(ctx context.Context, p *plan.Plan, flags *genericclioptions.ConfigFlags, from *source.Store, userAgent string, records bool) ([]Needed, error) {
	all, err := cluster.Open(p, flags, userAgent)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, conn := range all {
			conn.Close()
		}
	}()
	var ahead sync.WaitGroup
	ahead.Go(func() { from.Ahead(ctx, p.Steps, nil) }) // ends with the context
	defer ahead.Wait()
	run := Run{Plan: p, Conns: all}
	if records {
		run.Home, run.HasHome = cluster.Home(p, all)
	}
	run.Objects = func(ctx context.Context, s plan.Step, has charts.Capabilities) ([]manifest.Object, error) {
		var (
			namespace = all[p.StepCluster(s)].Namespace()
			chart     *charts.Chart
		)
		if s.Helm != nil {
			var err error
			if chart, err = charts.New(s, namespace, from); err != nil {
				return nil, err
			}
		}
		return Objects(ctx, s, namespace, from, chart, has)
	}
	var out []Needed
	names := slices.Sorted(maps.Keys(all))
	for i, name := range names {
		if slices.ContainsFunc(names[:i], func(other string) bool { return p.SameCluster(name, other) }) {
			continue
		}
		n, err := run.needed(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// needed computes the rights that the plan needs on a cluster.
func (r Run) needed(ctx context.Context, name string) (Needed, error) {
	o := &one{looking: &looking{Run: r}, name: name}
	n := Needed{Cluster: name, About: r.Conns[name].About(), Makes: map[string]bool{r.Plan.StateNamespace(): true}}
	api, err := r.Conns[name].Connect(ctx)
	absent := (*cluster.AbsentError)(nil)
	var served []*metav1.APIResourceList
	switch {
	case errors.As(err, &absent):
		n.Notes = append(n.Notes, rights.Note{Text: fmt.Sprintf("the cluster is not there yet, and is taken to serve what Kubernetes does: %v", absent)})
	case err != nil:
		return n, err
	default:
		var version string
		if served, version, err = api.Serves(ctx); err != nil {
			return n, kubeerr.Explain(err, kubeerr.Op{Verb: "get"})
		}
		if o.session, err = api.Session(cluster.Options{}); err != nil {
			return n, err
		}
		o.has = charts.CapabilitiesOf(version, served)
	}
	o.read(ctx)
	if ctx.Err() != nil {
		return n, context.Cause(ctx)
	}
	o.know(served)
	rules, notes := rights.Of(o.needs(ctx))
	n.Rules, n.Notes = rules, append(n.Notes, notes...)
	for _, s := range o.steps {
		if s.Helm != nil && s.Helm.CreateNamespace {
			n.Makes[cmp.Or(s.Helm.Namespace, s.namespace)] = true
		}
		for _, u := range s.bare() {
			if (s.Helm != nil || s.Apply != nil) && u.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
				n.Makes[u.GetName()] = true
			}
		}
	}
	if api != nil {
		labels := api.Labels(ctx)
		maps.DeleteFunc(n.Makes, func(name string, _ bool) bool {
			_, there := labels(name)
			return there
		})
	}
	return n, nil
}
