package preflight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/helm"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
)

// step is a step with what it sends, and what that brings.
type step struct {
	plan.Step
	objects []manifest.Object
	brings  *brings
	origin  *kinds.Step
	// before are the steps on the cluster that it needs, directly or not; beside are
	// those that may run at the same time.
	before, beside []*step
}

// fields lead to what names an object in the step.
func (s *step) fields(o manifest.Object) []any {
	switch {
	case s.Helm != nil:
		return []any{"helm", "chart"}
	case o.File == "":
		return []any{"apply", "objects", o.At[0]}
	}
	return []any{"apply", "files"}
}

// dryRun is how the step sends its objects, as a dry run.
func (s *step) dryRun() metav1.PatchOptions {
	o := metav1.PatchOptions{
		DryRun: []string{metav1.DryRunAll}, FieldManager: "helm", Force: new(true), FieldValidation: metav1.FieldValidationWarn,
	}
	if s.Apply != nil {
		o.FieldManager, o.Force, o.FieldValidation = "kplan", new(s.Apply.ForceConflicts), metav1.FieldValidationStrict
	}
	return o
}

// read reads what a step sends.
func (c *clusterChecker) read(ctx context.Context, s plan.Step) error {
	st := &step{Step: s}
	known := len(s.Deferred()) == 0
	if known {
		var err error
		if st.objects, known, err = c.objects(ctx, s); err != nil {
			return err
		}
	} else {
		c.find(Unchecked, s, "", "the step cannot be checked before the run: it asks for "+s.Deferred()[0].String(), "name")
	}
	st.brings, st.origin = broughtBy(st), kinds.Unknown(s.Name)
	if known {
		st.origin = kinds.Of(s.Name, manifest.Bare(st.objects))
	}
	c.steps = append(c.steps, st)
	return nil
}

// objects are those that a step sends; they are not known if they cannot be read.
func (c *clusterChecker) objects(ctx context.Context, s plan.Step) (_ []manifest.Object, known bool, err error) {
	namespace := c.conns[c.plan.StepCluster(s)].Namespace()
	rule, fields := Refused, []any{"apply"}
	var chart *charts.Chart
	switch {
	case s.Helm != nil:
		rule, fields = Chart, []any{"helm", "chart"}
		if chart, err = charts.New(s, namespace, c.sources); err != nil {
			return nil, false, err
		}
	case s.Apply != nil:
		spec := *s.Apply
		spec.Namespace = cmp.Or(spec.Namespace, namespace)
		s.Apply = &spec
	}
	objects, err := manifest.Of(ctx, s, c.sources, chart, c.has)
	switch {
	case ctx.Err() != nil:
		return nil, false, context.Cause(ctx)
	case err != nil:
		c.find(rule, s, runner.HintOf(err), err.Error(), fields...)
		return nil, false, nil
	case chart != nil:
		c.release(ctx, s, helm.New(chart, namespace, helm.Options{}))
	}
	return objects, true, nil
}

// release looks whether another chart has the release's name, and somebody else
// objects of the chart.
func (c *clusterChecker) release(ctx context.Context, s plan.Step, a *helm.Action) {
	switch other, err := a.Clash(ctx, c.session); {
	case err != nil:
		c.find(Unchecked, s, runner.HintOf(err), err.Error(), "helm", "release")
		return
	case other != "":
		c.tell(clash(s, other))
	}
	foreign, err := a.Foreign(ctx, c.session, c.has)
	if err != nil {
		c.find(Unchecked, s, runner.HintOf(err), err.Error(), "helm", "chart")
	}
	for _, f := range foreign {
		c.find(Owner, s, helm.ForeignHint, f, "helm", "chart")
	}
}

// clash is the finding of a release that is of another chart.
func clash(s plan.Step, other string) finding.Finding {
	message := fmt.Sprintf("the release %s is of another chart, %s", s.ReleaseName(), other)
	return Find(Release, s, "give the release another name, or uninstall that one first", message, "helm", "release")
}

// relate finds for each step which of the others on the cluster come before it, and
// which may run at the same time.
func (c *clusterChecker) relate() {
	for _, s := range c.steps {
		before := c.graph.Ancestors(s.Name)
		_, beside := kinds.Around(c.plan, s.Step)
		for _, other := range c.steps {
			if slices.Contains(before, other.Name) {
				s.before = append(s.before, other)
			}
			if slices.ContainsFunc(beside, func(b plan.Step) bool { return b.Name == other.Name }) {
				s.beside = append(s.beside, other)
			}
		}
	}
}

// brings is what the cluster has once a step is done.
type brings struct {
	kinds      map[schema.GroupKind]bool
	types      map[string]bool // as kubectl takes them, without a version
	namespaces map[string]bool
	// definitions are the CRDs that the step waits for, by PLURAL.GROUP.
	definitions map[string]bool
}

func broughtBy(s *step) *brings {
	b := &brings{map[schema.GroupKind]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, o := range s.objects {
		switch {
		case kinds.IsDefinition(o.Unstructured):
			b.define(kinds.DefinitionOf(o.Unstructured))
		case o.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Namespace"}:
			b.namespaces[o.GetName()] = true
		}
		if s.Helm != nil && s.Helm.CreateNamespace {
			b.namespaces[o.GetNamespace()] = true
		}
	}
	if s.Wait != nil && s.Wait.For != string(plan.ConditionDelete) {
		typ, name, _ := strings.Cut(strings.ToLower(s.Wait.Resource), "/")
		switch typ, _, _ = strings.Cut(typ, "."); typ {
		case "crd", "crds", "customresourcedefinition", "customresourcedefinitions":
			plural, group, _ := strings.Cut(name, ".")
			b.definitions[name] = true
			b.types[plural], b.types[plural+"."+group] = true, true
		case "ns", "namespace", "namespaces":
			b.namespaces[name] = true
		}
	}
	return b
}

// define takes note of a CRD.
func (b *brings) define(d kinds.Definition) {
	b.kinds[d.GroupKind] = true
	for _, name := range append(d.ShortNames, d.Plural, d.Singular, strings.ToLower(d.Kind)) {
		b.types[name], b.types[name+"."+d.Group] = true, true
	}
}

// names reports whether a type argument of kubectl means a kind that is brought.
func (b *brings) names(typ string) bool {
	full, resource := schema.ParseResourceArg(strings.ToLower(typ))
	if b.types[resource.String()] {
		return true
	}
	return full != nil && b.types[full.GroupResource().String()]
}

// defines reports whether the step brings a kind, or waits for its definition.
func (b *brings) defines(kind schema.GroupKind) bool { return b.kinds[kind] || b.waitsFor(kind) }

// waitsFor reports whether the step waits for the definition of a kind.
func (b *brings) waitsFor(kind schema.GroupKind) bool {
	if len(b.definitions) == 0 {
		return false
	}
	plural, _ := meta.UnsafeGuessKindToResource(kind.WithVersion(""))
	return b.definitions[plural.Resource+"."+kind.Group]
}
