package analyze

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
)

// Place is a cluster, and the namespaces in it that are meant.
type Place struct {
	// Cluster is the plan's name of it; "" is that of the command line.
	Cluster string
	// About names it for people.
	About  string
	Config *rest.Config
	// Namespaces are sorted; none stands for all.
	Namespaces []string
	// Default is the namespace of objects that name none.
	Default string
}

// Here connects to the cluster that flags name, with the namespace of the flag.
func Here(ctx context.Context, flags *genericclioptions.ConfigFlags, userAgent string) (Place, error) {
	api, err := cluster.Connect(ctx, flags, userAgent)
	if err != nil {
		return Place{}, err
	}
	here := Place{About: api.About(), Config: api.Config(), Default: api.Namespace()}
	if flags.Namespace != nil && *flags.Namespace != "" {
		here.Namespaces = []string{*flags.Namespace}
	}
	return here, nil
}

// Places connects to the clusters that the steps of a plan work on. The namespaces are
// those that the steps name. close ends the connections. A cluster whose kubeconfig is
// not there yet is left out; the error joins those that cannot be reached.
func Places(ctx context.Context, p *plan.Plan, flags *genericclioptions.ConfigFlags, userAgent string) (places []Place, closeAll func(), err error) {
	conns, err := cluster.Open(p, flags, userAgent)
	if err != nil {
		return nil, nil, err
	}
	closeAll = func() {
		for _, conn := range conns {
			conn.Close()
		}
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(conns)) {
		api, err := conns[name].Connect(ctx)
		if absent := (*cluster.AbsentError)(nil); errors.As(err, &absent) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		at := Place{Cluster: name, About: api.About(), Config: api.Config(), Default: api.Namespace()}
		for _, s := range p.Steps {
			if s.Skip == "" && p.StepCluster(s) == name {
				at.Namespaces = append(at.Namespaces, cmp.Or(s.Namespace(), api.Namespace()))
			}
		}
		if slices.Sort(at.Namespaces); len(at.Namespaces) > 0 {
			at.Namespaces = slices.Compact(at.Namespaces)
			places = append(places, at)
		}
	}
	if err := errors.Join(errs...); err != nil {
		closeAll()
		return nil, nil, err
	}
	return places, closeAll, nil
}
