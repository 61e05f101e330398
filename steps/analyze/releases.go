package analyze

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/helm"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/guard"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// Release is a Helm release of a cluster, and the ones that must come before it.
type Release struct {
	helm.Installed
	// Needs are indexes of other releases. Of two that need each other neither
	// has the other here: what comes first is not certain.
	Needs []ReleaseNeed
}

// ReleaseNeed says why a release must come after another one.
type ReleaseNeed struct {
	// Index is that of the other release.
	Index int
	// Why is such as "its webhooks judge 3 objects of this release".
	Why string
}

// Releases reads the releases of a namespace of the cluster that flags name; of
// the context's namespace with "", of all with everywhere. The order is as far as
// the releases' manifests tell: by CRDs, and by webhooks that fail closed. The
// error says what could not be read; releases that could are returned all the
// same.
func Releases(ctx context.Context, flags *genericclioptions.ConfigFlags, userAgent string, everywhere bool) ([]Release, error) {
	api, err := cluster.Connect(ctx, flags, userAgent)
	if err != nil {
		return nil, err
	}
	session, err := api.Session(cluster.Options{})
	if err != nil {
		return nil, err
	}
	namespace := api.Namespace()
	if everywhere {
		namespace = ""
	}
	installed, err := helm.List(ctx, session.Clientset, namespace)
	if len(installed) == 0 {
		return nil, err
	}
	served, _, e := api.Serves(ctx)
	if e != nil {
		return nil, e
	}
	all := make([]Release, len(installed))
	for i := range installed {
		all[i].Installed = installed[i]
	}
	order(ctx, all, guard.Known{Served: served, Labels: api.Labels(ctx)})
	return all, err
}

// order finds what each release needs.
func order(ctx context.Context, all []Release, k guard.Known) {
	why := make([]map[int]string, len(all)) // by the one that needs, then the needed one
	for i := range all {
		why[i] = map[int]string{}
	}
	for by := range all {
		for i, count := range definedBy(all, by) {
			why[i][by] = fmt.Sprintf("it defines the kinds of %d objects of this release", count)
		}
		for i, count := range judgedBy(ctx, all, by, k) {
			why[i][by] = fmt.Sprintf("its webhooks judge %d objects of this release", count)
		}
	}
	before := closure(why)
	for i := range all {
		for by := range all {
			if text, ok := why[i][by]; ok && !before[by][i] {
				all[i].Needs = append(all[i].Needs, ReleaseNeed{by, text})
			}
		}
	}
}

// closure tells for each release which others come before it, directly or not.
func closure(why []map[int]string) []map[int]bool {
	before := make([]map[int]bool, len(why))
	for i := range why {
		before[i] = map[int]bool{}
		for todo := []int{i}; len(todo) > 0; todo = todo[1:] {
			for by := range why[todo[0]] {
				if !before[i][by] {
					before[i][by] = true
					todo = append(todo, by)
				}
			}
		}
	}
	return before
}

// definedBy counts the objects of other releases whose kinds a release defines.
func definedBy(all []Release, by int) map[int]int {
	defined := map[schema.GroupKind]bool{}
	for _, o := range all[by].Objects {
		if kinds.IsDefinition(o) {
			defined[kinds.DefinitionOf(o).GroupKind] = true
		}
	}
	counts := map[int]int{}
	for i := range all {
		for _, o := range all[i].Objects {
			if i != by && defined[o.GroupVersionKind().GroupKind()] {
				counts[i]++
			}
		}
	}
	return counts
}

// judgedBy counts the objects of other releases that certainly go through a
// webhook of a release, by asking about a plan in which all others come after it.
func judgedBy(ctx context.Context, all []Release, by int, k guard.Known) map[int]int {
	closed := failingClosed(all[by].Objects)
	if len(closed) == 0 {
		return nil
	}
	index := map[string]int{}
	p := &plan.Plan{}
	for i := range all {
		s := plan.Step{Name: fmt.Sprint(i)}
		if i != by {
			s.Needs = plan.Needs(fmt.Sprint(by))
		}
		index[s.Name] = i
		p.Steps = append(p.Steps, s)
	}
	guards, _ := guard.Find(ctx, p, func(_ context.Context, s plan.Step) ([]manifest.Object, error) {
		sent := closed
		if i := index[s.Name]; i != by {
			sent = slices.DeleteFunc(slices.Clone(all[i].Objects), isConfiguration)
		}
		return manifest.Placeless(sent), nil
	}, func(string) guard.Known { return k }) // what cannot be read has no order
	counts := map[int]int{}
	for _, g := range guards {
		if i := index[g.Step]; i != by && !g.Maybe {
			counts[i] += g.Objects
		}
	}
	return counts
}

var configurations = []schema.GroupKind{
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"},
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"},
}

func isConfiguration(o *unstructured.Unstructured) bool {
	return slices.Contains(configurations, o.GroupVersionKind().GroupKind())
}

// failingClosed are the objects with only those webhooks without which requests
// fail; none when there are no such webhooks.
func failingClosed(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	found := false
	for _, o := range objects {
		if isConfiguration(o) {
			o = o.DeepCopy()
			hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
			hooks = slices.DeleteFunc(hooks, func(h any) bool {
				m, _ := h.(map[string]any)
				return m["failurePolicy"] == "Ignore" // the default is Fail
			})
			found = found || len(hooks) > 0
			o.Object["webhooks"] = hooks
		}
		out = append(out, o)
	}
	if !found {
		return nil
	}
	return out
}

// Survey connects to the cluster that flags name, for a view of its webhooks
// alone. Close it when it is not needed any more.
func Survey(ctx context.Context, flags *genericclioptions.ConfigFlags, userAgent string) (*survey.Survey, error) {
	api, err := cluster.Connect(ctx, flags, userAgent)
	if err != nil {
		return nil, err
	}
	return api.Survey, nil
}
