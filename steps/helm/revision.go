package helm

import (
	"cmp"
	"context"
	"slices"

	helmkube "helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/kplan-dev/kplan/steps/helm/sequence"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/match"
)

// revision knows what is still to be sent of the revision that is being made.
// Helm's goroutine alone uses it; the zero value knows nothing.
type revision struct {
	namespace string // of the release
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
func (r *revision) begin(rel *release.Release) {
	r.namespace, r.later = rel.Namespace, map[identity]*unstructured.Unstructured{}
	manifests := []string{rel.Manifest}
	for _, h := range rel.Hooks {
		if slices.ContainsFunc(h.Events, func(e release.HookEvent) bool { return slices.Contains(eventsOf(rel.Info.Status), e) }) {
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
func eventsOf(s release.Status) []release.HookEvent {
	switch s {
	case release.StatusPendingUpgrade:
		return []release.HookEvent{release.HookPreUpgrade, release.HookPostUpgrade}
	case release.StatusPendingRollback:
		return []release.HookEvent{release.HookPreRollback, release.HookPostRollback}
	default:
		return []release.HookEvent{release.HookPreInstall, release.HookPostInstall}
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
	if o := r.later[r.of(it)]; o != nil && o.GetAnnotations()[release.HookAnnotation] == "" {
		delete(r.later, r.of(it))
	}
}

// did takes note that hooks have ended.
func (r *revision) did(hooks helmkube.ResourceList) {
	for _, info := range hooks {
		delete(r.later, r.identity(info.Mapping.GroupVersionKind.GroupKind(), info.Namespace, info.Name))
	}
}

// free reports whether what comes after an object may be sent while the object is
// held. Hooks keep the order that their weights say, and kinds that others refer to
// Helm's, unless the webhook may wait for what comes after.
func (c *client) free(info *resource.Info, f webhook.Fault) bool {
	gk := info.Mapping.GroupVersionKind.GroupKind()
	switch hook := isHook(info); {
	case gk.Group == "" && gk.Kind == "Namespace", gk.Group == "apiextensions.k8s.io":
		return false // nothing in it, or of it, can be sent without it
	case hook && runsToItsEnd(gk) && !c.ignoreHooks:
		return false // Helm waits for its end next
	case hook, basic(gk.Kind):
		return c.revision.mayBring(f, c.revision.identity(gk, info.Namespace, info.Name))
	}
	return true
}

// basic reports whether objects of a kind are what workloads run on: accounts,
// rights, configuration, storage.
func basic(kind string) bool {
	i := slices.Index(releaseutil.InstallOrder, kind)
	return i >= 0 && i < slices.Index(releaseutil.InstallOrder, "Service")
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

func isHook(info *resource.Info) bool {
	u, ok := info.Object.(*unstructured.Unstructured)
	return ok && u.GetAnnotations()[release.HookAnnotation] != ""
}

// judged reports whether a webhook that is called where that of a fault is
// certainly judges an object.
func (c *client) judged(ctx context.Context, info *resource.Info, f webhook.Fault) bool {
	if f.Kind == webhook.Server || f.Kind == webhook.Conversion {
		return false
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(info.Object)
	if err != nil {
		return false
	}
	request := match.Request{
		Resource: info.Mapping.Resource, Kind: info.Mapping.GroupVersionKind, Namespace: info.Namespace, Name: info.Name,
		Object: &unstructured.Unstructured{Object: content}, Planned: true,
	}
	for _, e := range c.session.Cluster.Webhooks(ctx, f) {
		for _, request.Operation = range []admissionv1.OperationType{admissionv1.Create, admissionv1.Update} {
			if c.matcher.Match(ctx, e, request).Outcome == match.Calls {
				return true
			}
		}
	}
	return false
}
