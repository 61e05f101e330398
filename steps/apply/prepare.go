package apply

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
	"github.com/kplan-dev/kplan/steps/internal/watch"
)

// item is a manifest whose kind is known to the API server.
type item struct {
	manifest.Object
	phase   phase
	mapping *meta.RESTMapping
	client  dynamic.ResourceInterface
	fresh   bool // the kind was not served before

	before *unstructured.Unstructured // nil when the object was absent, and once it was applied
	read   bool                       // before is known
	hidden bool                       // before may not be read

	// What follows is written once, when the request was answered: outcome and done
	// under flow.mu.
	outcome outcome
	done    bool
	answer  *unstructured.Unstructured // without its managed fields
}

// record is the object as the run's record has it.
func (it *item) record(created bool) runner.Applied {
	gvk := it.mapping.GroupVersionKind
	return runner.Applied{
		Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: it.GetNamespace(), Name: it.GetName(), Created: created,
	}
}

// prepare maps the manifests that pick says, and gives each its namespace. It
// waits for kinds that other steps bring, once all others are known.
func (r *run) prepare(ctx context.Context, pick func(manifest.Object) bool) error {
	type kind struct {
		*meta.RESTMapping
		awaited []watch.Awaited
	}
	kinds := map[schema.GroupVersionKind]*kind{}
	var errs faults
	for _, m := range r.manifests {
		gvk := m.GroupVersionKind()
		if !pick(m) || kinds[gvk] != nil {
			continue
		}
		k := &kind{}
		var err error
		if k.RESTMapping, err = r.mappingOf(ctx, gvk, r.brought[m.Kind()]); meta.IsNoMatchError(err) {
			k.awaited, err = watch.Missing(ctx, r.session, gvk)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", m.Source, m.ID(), kubeerr.Explain(err, kubeerr.Op{})))
		}
		kinds[gvk] = k
	}
	if len(errs) > 0 {
		return errs.err()
	}
	for _, m := range r.manifests {
		if !pick(m) {
			continue
		}
		gvk := m.GroupVersionKind()
		k := kinds[gvk]
		if k.RESTMapping == nil {
			if err := watch.Await(ctx, r.session, r.reporter, k.awaited...); err != nil { // none if it came in the meantime
				return err
			}
			var err error
			if k.RESTMapping, err = r.session.Cluster.Mapping(ctx, gvk); err != nil {
				return kubeerr.Explain(err, kubeerr.Op{})
			}
		}
		r.add(m, k.RESTMapping, r.brought[m.Kind()] || len(k.awaited) > 0)
	}
	return nil
}

// add notes a manifest whose resource is known.
func (r *run) add(m manifest.Object, mapping *meta.RESTMapping, fresh bool) {
	object := m.DeepCopy()
	switch {
	case mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		object.SetNamespace("")
	case object.GetNamespace() == "":
		object.SetNamespace(r.namespace)
	}
	if r.spec.Prune {
		r.set.Label(object)
	}
	it := &item{Object: manifest.Object{Unstructured: object, Source: m.Source}, phase: phaseOf(m.Kind()), mapping: mapping, fresh: fresh}
	it.client = r.session.Resource(mapping, object.GetNamespace())
	r.items = append(r.items, it)
}

// mappingOf finds a kind's resource. A kind that the step itself brings may
// take a moment from Established to being discovered.
func (r *run) mappingOf(ctx context.Context, gvk schema.GroupVersionKind, fresh bool) (*meta.RESTMapping, error) {
	if fresh {
		// If it does not come in time, the mapping's own error says more.
		if err := r.session.Cluster.Served(ctx, []schema.GroupVersionKind{gvk}); ctx.Err() != nil {
			return nil, err
		}
	}
	return repeated(ctx, r.session, func() (*meta.RESTMapping, error) { return r.session.Cluster.Mapping(ctx, gvk) })
}

func (r *run) inPhase(p phase) []*item {
	return slices.DeleteFunc(slices.Clone(r.items), func(it *item) bool { return it.phase != p })
}

// established waits until the API server serves the step's new kinds.
func (r *run) established(ctx context.Context, items []*item) error {
	var targets []watch.Target
	changed := false
	for _, it := range items {
		if it.phase != first || it.mapping.GroupVersionKind.Group != kinds.Definitions.Group {
			continue
		}
		changed = changed || it.outcome != unchanged
		if watch.Ready(it.answer).State != watch.Reached {
			targets = append(targets, watch.TargetOf(it.answer))
		}
	}
	err := watch.Until(ctx, r.session, watch.Wait{
		Targets: targets, For: "custom resource definitions to be established",
		Judge:  func(_ watch.Target, u *unstructured.Unstructured) watch.Reading { return watch.Ready(u) },
		Notice: r.reporter.log,
	})
	if err == nil && changed {
		r.session.Cluster.Refresh()
	}
	return err
}
