package steps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/apply"
	"github.com/kplan-dev/kplan/steps/check"
	"github.com/kplan-dev/kplan/steps/helm"
	"github.com/kplan-dev/kplan/steps/internal/kube"
)

// Check asks the clusters of a plan what they have to say of it before it runs;
// see package check. It writes nothing to them. The error joins which clusters
// cannot be asked; one whose kubeconfig is not there yet is none of them.
func Check(ctx context.Context, c Config) ([]finding.Finding, error) {
	all, err := newLinks(c)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, l := range all {
			l.close()
		}
	}()
	v := &validation{plan: c.Plan, graph: c.Plan.Graph(), links: all}
	var (
		group  errgroup.Group
		names  = slices.Sorted(maps.Keys(all))
		absent = make([]*AbsentError, len(names))
		errs   = make([]error, len(names))
	)
	for i, name := range names {
		group.Go(func() error {
			if _, err := all[name].connect(ctx); !errors.As(err, &absent[i]) {
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
		if slices.ContainsFunc(names[:i], func(other string) bool { return c.Plan.SameCluster(name, other) }) {
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
	links    map[string]*link
	findings []finding.Finding
}

func (v *validation) find(rule string, s plan.Step, hint, message string, fields ...any) {
	v.findings = append(v.findings, check.Find(rule, s, hint, message, fields...))
}

// unknown says of the steps on a cluster that they cannot be checked.
func (v *validation) unknown(cluster string, why error) {
	for _, s := range v.plan.Steps {
		if v.plan.StepCluster(s) == cluster && runs(s) {
			v.find(check.Unchecked, s, "", fmt.Sprintf("the step cannot be checked before the run: %v", why), "cluster")
		}
	}
}

// runs tells whether a step may run.
func runs(s plan.Step) bool { return s.Skip == "" && s.When != false }

// cluster checks the steps on a cluster, under all of its names in the plan.
func (v *validation) cluster(ctx context.Context, name string) error {
	conn := v.links[name].now()
	session, err := conn.cluster.Session(kube.Options{})
	if err != nil {
		return err
	}
	served, version, err := conn.cluster.Serves(ctx)
	if err != nil {
		return kube.Explain(err, kube.Op{Verb: "get"})
	}
	has := helm.Capabilities{Version: version, APIs: versions(served)}
	c := check.Cluster{Session: session}
	for _, s := range v.plan.Steps {
		on := v.plan.StepCluster(s)
		if !runs(s) || !v.plan.SameCluster(on, name) || v.links[on] == nil {
			continue
		}
		if len(s.Deferred()) > 0 {
			v.find(check.Unchecked, s, "", "the step cannot be checked before the run: it asks for "+s.Deferred()[0].String(), "name")
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
func (v *validation) place(s plan.Step) check.Step {
	out := check.Step{Step: s, Before: v.graph.Ancestors(s.Name)}
	_, beside := neighbours(v.plan, s)
	for _, other := range beside {
		out.Beside = append(out.Beside, other.Name)
	}
	return out
}

// step reads what a step sends.
func (v *validation) step(ctx context.Context, s plan.Step, session *kube.Session, has helm.Capabilities) (check.Step, error) {
	out := v.place(s)
	namespace := v.links[v.plan.StepCluster(s)].namespace()
	switch {
	case s.Helm != nil:
		chart, err := helm.NewChart(v.plan.In(s), s, namespace)
		if err != nil {
			return out, err
		}
		objects, err := chart.Render(ctx, has)
		switch {
		case ctx.Err() != nil:
			return out, context.Cause(ctx)
		case err != nil:
			v.find(check.Chart, s, runner.HintOf(err), err.Error(), "helm", "chart")
			out.Unread = true
			return out, nil
		}
		for _, u := range objects {
			out.Objects = append(out.Objects, check.Object{
				Unstructured: u, Fields: []any{"helm", "chart"}, Manager: "helm", Force: true, Validation: metav1.FieldValidationWarn,
			})
		}
		v.release(ctx, s, helm.New(chart, session, helm.Options{}), has)
	case s.Apply != nil:
		spec := *s.Apply
		spec.Namespace = cmp.Or(spec.Namespace, namespace)
		objects, err := apply.Objects(v.plan.In(s), spec)
		if err != nil {
			v.find(check.Refused, s, runner.HintOf(err), err.Error(), "apply")
			out.Unread = true
			return out, nil
		}
		sources, _ := apply.Sources(v.plan.In(s), spec)
		for i, u := range objects {
			out.Objects = append(out.Objects, check.Object{
				Unstructured: u, Source: sources[i], Fields: placeOf(sources[i]), Manager: "kplan", Force: spec.ForceConflicts,
				Validation: metav1.FieldValidationStrict,
			})
		}
	}
	return out, nil
}

// placeOf leads to where an apply step names an object that was read at source.
func placeOf(source string) []any {
	if rest, ok := strings.CutPrefix(source, "objects["); ok {
		number, _, _ := strings.Cut(rest, "]")
		if i, err := strconv.Atoi(number); err == nil {
			return []any{"apply", "objects", i}
		}
	}
	return []any{"apply", "files"}
}

// release looks whether another chart has the release's name, and somebody else
// objects of the chart.
func (v *validation) release(ctx context.Context, s plan.Step, a *helm.Action, has helm.Capabilities) {
	switch other, err := a.Clash(ctx); {
	case err != nil:
		v.find(check.Unchecked, s, runner.HintOf(err), err.Error(), "helm", "release")
		return
	case other != "":
		v.find(check.Release, s, "give the release another name, or uninstall that one first",
			fmt.Sprintf("the release %s is of another chart, %s", s.ReleaseName(), other), "helm", "release")
	}
	foreign, err := a.Foreign(ctx, has)
	if err != nil {
		v.find(check.Unchecked, s, runner.HintOf(err), err.Error(), "helm", "chart")
	}
	for _, f := range foreign {
		v.find(check.Owner, s, helm.ForeignHint, f, "helm", "chart")
	}
}
