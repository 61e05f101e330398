package preflight

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/kplan-dev/kplan/steps/helm"
)

// releases looks for releases of other charts, and with Strict for objects that are not the
// release's, both of which helm steps refuse before they write.
func (o *one) releases(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(inFlight)
	for _, s := range o.steps {
		chart := o.Chart(s.Step)
		if s.Helm == nil || s.err != nil || chart == nil || o.deletes(s) {
			continue
		}
		group.Go(func() error {
			o.whose(ctx, s, helm.New(chart, s.namespace, helm.Options{}))
			return nil
		})
	}
	_ = group.Wait()
}

// deletes reports whether a step takes away the release that a helm step installs: it may
// be another chart's until then.
func (o *one) deletes(s *known) bool {
	return slices.ContainsFunc(o.steps, func(k *known) bool {
		return k.Delete != nil && k.Delete.Release == s.ReleaseName() && cmp.Or(k.Delete.Namespace, k.namespace) == cmp.Or(s.Helm.Namespace, s.namespace)
	})
}

// oldest is the oldest version of Kubernetes in which all is there that kplan needs: the
// endpoint slices of discovery.k8s.io/v1 (1.21) and server-side apply (1.22).
const oldest = 22

// version looks whether the API server is too old.
func (o *one) version(version string) {
	var major, minor int
	if _, err := fmt.Sscanf(version, "v%d.%d", &major, &minor); err != nil || major > 1 || minor >= oldest {
		return
	}
	for _, s := range o.Plan.Steps {
		if o.Plan.SameCluster(o.Plan.StepCluster(s), o.name) {
			f := Find(Version, s, "upgrade it", fmt.Sprintf("%s is of version %s: kplan needs server-side apply, which is there from 1.%d on", o.called(o.name), version, oldest), "name")
			o.find(f)
			return
		}
	}
}

// whose looks whether another chart has the release's name, and with Strict whether others
// have objects of the chart. What cannot be read its step tells.
func (o *one) whose(ctx context.Context, s *known, a *helm.Action) {
	if other, err := a.Clash(ctx, o.session); err == nil && other != "" {
		o.find(clash(s.Step, other))
	}
	if !o.Strict {
		return
	}
	foreign, err := a.Foreign(ctx, o.session, o.has)
	if err != nil {
		o.miss(ctx, fmt.Sprintf("whether others have objects of the release %s", s.ReleaseName()))
	}
	for _, f := range foreign {
		o.find(Find(Owner, s.Step, helm.ForeignHint, f, "helm", "chart"))
	}
}
