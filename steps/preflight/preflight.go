// Package preflight tells what clusters have to say of a plan's steps before any of
// them runs: kinds and namespaces that nothing brings, objects that the API server
// would refuse, releases of another chart.
//
// It writes nothing: objects are sent as dry runs. It does not know what a
// controller will make while the plan runs, but for what the plan waits for.
package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/helm"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
)

// Check asks the clusters of a plan what they have to say of it before it runs.
// The error joins which clusters
// cannot be asked; one whose kubeconfig is not there yet is none of them.
func Check(ctx context.Context, p *plan.Plan, flags *genericclioptions.ConfigFlags, userAgent string) ([]finding.Finding, error) {
	all, err := cluster.Open(p, flags, userAgent)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, l := range all {
			l.Close()
		}
	}()
	v := &validation{plan: p, graph: p.Graph(), conns: all}
	var (
		group  errgroup.Group
		names  = slices.Sorted(maps.Keys(all))
		absent = make([]*cluster.AbsentError, len(names))
		errs   = make([]error, len(names))
	)
	for i, name := range names {
		group.Go(func() error {
			if _, err := all[name].Connect(ctx); !errors.As(err, &absent[i]) {
				errs[i] = err
			}
			return nil
		})
	}
	_ = group.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for i, name := range names {
		if absent[i] != nil {
			v.unknown(name, absent[i])
			continue
		}
		if slices.ContainsFunc(names[:i], func(other string) bool { return p.SameCluster(name, other) }) {
			continue
		}
		if err := v.cluster(ctx, name); err != nil {
			return nil, err
		}
	}
	return v.findings, nil
}

// validation is the check of one plan.
type validation struct {
	plan     *plan.Plan
	graph    *plan.Graph
	conns    map[string]*cluster.Conn
	findings []finding.Finding
}

func (v *validation) find(rule string, s plan.Step, hint, message string, fields ...any) {
	v.findings = append(v.findings, Find(rule, s, hint, message, fields...))
}

// unknown says of the steps on a cluster that they cannot be checked.
func (v *validation) unknown(cluster string, why error) {
	for _, s := range v.plan.Steps {
		if v.plan.StepCluster(s) == cluster && kinds.Runs(s) {
			v.find(Unchecked, s, "", fmt.Sprintf("the step cannot be checked before the run: %v", why), "cluster")
		}
	}
}

// cluster checks the steps on a cluster, under all of its names in the plan.
func (v *validation) cluster(ctx context.Context, name string) error {
	conn := v.conns[name].Now()
	session, err := conn.Session(cluster.Options{})
	if err != nil {
		return err
	}
	served, version, err := conn.Serves(ctx)
	if err != nil {
		return kubeerr.Explain(err, kubeerr.Op{Verb: "get"})
	}
	has := charts.CapabilitiesOf(version, served)
	c := Cluster{Session: session}
	for _, s := range v.plan.Steps {
		on := v.plan.StepCluster(s)
		if !kinds.Runs(s) || !v.plan.SameCluster(on, name) || v.conns[on] == nil {
			continue
		}
		if len(s.Deferred()) > 0 {
			v.find(Unchecked, s, "", "the step cannot be checked before the run: it asks for "+s.Deferred()[0].String(), "name")
			late := v.place(s)
			late.Unread = true
			c.Steps = append(c.Steps, late)
			continue
		}
		found, err := v.step(ctx, s, session, has)
		if err != nil {
			return err
		}
		c.Steps = append(c.Steps, found)
	}
	found, err := c.Run(ctx)
	v.findings = append(v.findings, found...)
	return err
}

// place is a step among the others, of which nothing was read yet.
func (v *validation) place(s plan.Step) Step {
	out := Step{Step: s, Before: v.graph.Ancestors(s.Name)}
	_, beside := kinds.Around(v.plan, s)
	for _, other := range beside {
		out.Beside = append(out.Beside, other.Name)
	}
	return out
}

// step reads what a step sends.
func (v *validation) step(ctx context.Context, s plan.Step, session *cluster.Session, has charts.Capabilities) (Step, error) {
	out := v.place(s)
	namespace := v.conns[v.plan.StepCluster(s)].Namespace()
	switch {
	case s.Helm != nil:
		chart, err := charts.New(s, namespace)
		if err != nil {
			return out, err
		}
		objects, err := chart.Render(ctx, has)
		switch {
		case ctx.Err() != nil:
			return out, context.Cause(ctx)
		case err != nil:
			v.find(Chart, s, runner.HintOf(err), err.Error(), "helm", "chart")
			out.Unread = true
			return out, nil
		}
		for _, u := range objects {
			out.Objects = append(out.Objects, Object{
				Object: manifest.Object{Unstructured: u}, Fields: []any{"helm", "chart"}, Manager: "helm", Force: true, Validation: metav1.FieldValidationWarn,
			})
		}
		v.release(ctx, s, helm.New(chart, session, helm.Options{}), has)
	case s.Apply != nil:
		spec := *s.Apply
		spec.Namespace = cmp.Or(spec.Namespace, namespace)
		s.Apply = &spec
		objects, err := manifest.Objects(s)
		if err != nil {
			v.find(Refused, s, runner.HintOf(err), err.Error(), "apply")
			out.Unread = true
			return out, nil
		}
		for _, o := range objects {
			out.Objects = append(out.Objects, Object{
				Object: o, Fields: placeOf(o), Manager: "kplan", Force: spec.ForceConflicts,
				Validation: metav1.FieldValidationStrict,
			})
		}
	}
	return out, nil
}

// placeOf leads to where an apply step names an object.
func placeOf(o manifest.Object) []any {
	if o.File == "" {
		return []any{"apply", "objects", o.At[0]}
	}
	return []any{"apply", "files"}
}

// release looks whether another chart has the release's name, and somebody else
// objects of the chart.
func (v *validation) release(ctx context.Context, s plan.Step, a *helm.Action, has charts.Capabilities) {
	switch other, err := a.Clash(ctx); {
	case err != nil:
		v.find(Unchecked, s, runner.HintOf(err), err.Error(), "helm", "release")
		return
	case other != "":
		v.find(Release, s, "give the release another name, or uninstall that one first",
			fmt.Sprintf("the release %s is of another chart, %s", s.ReleaseName(), other), "helm", "release")
	}
	foreign, err := a.Foreign(ctx, has)
	if err != nil {
		v.find(Unchecked, s, runner.HintOf(err), err.Error(), "helm", "chart")
	}
	for _, f := range foreign {
		v.find(Owner, s, helm.ForeignHint, f, "helm", "chart")
	}
}
