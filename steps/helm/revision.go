package helm

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/steps/helm/sequence"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/webhook"
)

// revision knows what is still to be sent of the revision that is being made.
// Helm's goroutine alone uses it; the zero value knows nothing.
type revision struct {
	namespace string // of the release
	// ignoreHooks says that no hooks are run.
	ignoreHooks bool
	// later are the objects that were not sent yet, and the hooks that have not
	// ended.
	later map[identity]*unstructured.Unstructured
}

// identity tells objects apart.
type identity struct {
	kind            schema.GroupKind
	namespace, name string
}

// begin takes note of what a revision consists of.
func (r *revision) begin(rel *engine.Release) {
	r.namespace, r.later = rel.Namespace, map[identity]*unstructured.Unstructured{}
	manifests := []string{rel.Manifest}
	for _, h := range rel.Hooks {
		if !r.ignoreHooks && slices.ContainsFunc(h.Events, func(e engine.HookEvent) bool { return slices.Contains(eventsOf(rel.Info.Status), e) }) {
			manifests = append(manifests, h.Manifest)
		}
	}
	for _, m := range manifests {
		objects, _ := charts.Decode(m) // Helm reads it too, and says what is wrong
		for _, o := range objects {
			r.later[r.identity(o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName())] = o
		}
	}
}

// eventsOf are the hooks that run while a release has a status.
func eventsOf(s engine.Status) []engine.HookEvent {
	switch s {
	case engine.StatusPendingUpgrade:
		return []engine.HookEvent{engine.HookPreUpgrade, engine.HookPostUpgrade}
	case engine.StatusPendingRollback:
		return []engine.HookEvent{engine.HookPreRollback, engine.HookPostRollback}
	default:
		return []engine.HookEvent{engine.HookPreInstall, engine.HookPostInstall}
	}
}

// identity is that of an object whose manifest may leave out the release's
// namespace. Those of no namespace count as the release's.
func (r *revision) identity(kind schema.GroupKind, namespace, name string) identity {
	return identity{kind, cmp.Or(namespace, r.namespace), name}
}

func (r *revision) of(it *sequence.Item) identity {
	return r.identity(it.Kind.GroupKind(), it.Namespace, it.Name)
}

// sends takes note that an object is being sent. Hooks count until they have
// ended: see did.
func (r *revision) sends(it *sequence.Item) {
	if o := r.later[r.of(it)]; o != nil && o.GetAnnotations()[engine.HookAnnotation] == "" {
		delete(r.later, r.of(it))
	}
}

// did takes note that hooks have ended.
func (r *revision) did(hooks engine.ResourceList) {
	for _, info := range hooks {
		delete(r.later, r.identity(info.Mapping.GroupVersionKind.GroupKind(), info.Namespace, info.Name))
	}
}

// mayBring reports whether something that is still to be sent, but for one object,
// may be what the webhook of a fault waits for: its configuration, or anything in
// the namespace of its Service.
func (r *revision) mayBring(f webhook.Fault, but identity) bool {
	if f.Kind == webhook.Server {
		return false
	}
	for id, o := range r.later {
		if id != but && (f.Namespace == "" || f.Namespace == id.namespace || configures(o, f)) {
			return true
		}
	}
	return false
}

// configures reports whether an object is the configuration of a fault's webhook.
func configures(o *unstructured.Unstructured, f webhook.Fault) bool {
	entries, err := webhook.EntriesOf(o)
	return err == nil && slices.ContainsFunc(entries, func(e webhook.Entry) bool { return e.Matches(f) })
}
