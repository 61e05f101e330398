package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
	"github.com/kplan-dev/kplan/steps/internal/watch"
)

// outcome is what applying did to an object.
type outcome int

const (
	created outcome = iota
	configured
	unchanged
)

func (o outcome) String() string {
	return [...]string{"created", "configured", "unchanged"}[o]
}

const (
	// patience is how long faults that pass by themselves are endured, for each object.
	patience = 30 * time.Second
	// listFrom is from how many objects of a kind and namespace on one list is
	// cheaper than asking for each; listLimit bounds that list.
	listFrom  = 10
	listLimit = 1000
)

// item is a manifest whose kind is known to the API server.
type item struct {
	manifest.Object
	phase   phase
	mapping *meta.RESTMapping
	client  dynamic.ResourceInterface
	fresh   bool // the kind was not served before

	before   *metav1.ObjectMeta // nil when the object was absent
	surveyed bool               // before is known
	hidden   bool               // before may not be read

	// What follows is written once, under run.mu, when the request was answered.
	outcome outcome
	done    bool
	answer  *unstructured.Unstructured
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
	return r.session.Cluster.Mapping(ctx, gvk)
}

func (r *run) inPhase(p phase) []*item {
	return slices.DeleteFunc(slices.Clone(r.items), func(it *item) bool { return it.phase != p })
}

// survey notes the metadata that objects have before they are applied, where
// many of a kind and namespace are asked for at once. Where listing is not
// allowed send asks for each.
func (r *run) survey(ctx context.Context, items []*item) error {
	type key struct {
		schema.GroupVersionResource
		namespace string
	}
	groups := map[key][]*item{}
	for _, it := range items {
		k := key{it.mapping.Resource, it.GetNamespace()}
		groups[k] = append(groups[k], it)
	}
	var wg sync.WaitGroup
	for _, group := range groups {
		if len(group) < listFrom {
			continue
		}
		wg.Go(func() {
			list, err := r.metadataOf(group[0]).List(ctx, metav1.ListOptions{Limit: listLimit})
			if err != nil {
				return // send asks for each, and tells
			}
			there := map[string]*metav1.ObjectMeta{}
			for i := range list.Items {
				there[list.Items[i].Name] = &list.Items[i].ObjectMeta
			}
			for _, it := range group {
				it.before = there[it.GetName()]
				it.surveyed = it.before != nil || list.Continue == ""
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (r *run) metadataOf(it *item) metadata.ResourceInterface {
	return r.metadata.Resource(it.mapping.Resource).Namespace(it.GetNamespace())
}

// send applies one object until it is admitted or refused for good. Applying is
// the same twice as once, so it is repeated also where it is not sure whether
// the object was persisted.
func (r *run) send(ctx context.Context, it *item) (outcome, error) {
	body, err := json.Marshal(it.Unstructured)
	if err != nil {
		return 0, err
	}
	if !it.surveyed {
		if err := r.ask(ctx, it); err != nil {
			return 0, r.explain(ctx, it, "get", err)
		}
	}
	options := metav1.PatchOptions{
		FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict, Force: new(r.spec.ForceConflicts),
	}
	began, wait := time.Now(), newBackOff()
	for {
		answer, err := it.client.Patch(ctx, it.GetName(), types.ApplyPatchType, body, options)
		switch {
		case err == nil && answer.GetDeletionTimestamp() != nil:
			if err := r.gone(ctx, it); err != nil {
				return 0, err
			}
			it.before = nil
		case err == nil:
			it.answer = answer
			return it.judge(answer), nil
		case ctx.Err() != nil || time.Since(began) > patience || !transient(err, it):
			return 0, r.explain(ctx, it, "patch", err)
		default:
			if err := watch.Pause(ctx, wait.NextBackOff()); err != nil {
				return 0, err
			}
		}
	}
}

// judge tells what applying did. The versions say it, unless somebody else
// wrote at the same time, as controllers do to the status: then it counts
// whether what kplan owns, and what belongs to users, is as it was. Objects
// without generation have no status that others write, except namespaces, of
// which users set nothing but labels and annotations. (The API server itself
// writes a bare namespace when it is applied for the second time: only then
// does it note who owned it before, as "before-first-apply".)
func (it *item) judge(answer *unstructured.Unstructured) outcome {
	before := it.before
	switch {
	case it.hidden:
		return configured
	case before == nil:
		return created
	case before.ResourceVersion == answer.GetResourceVersion():
		return unchanged
	case before.Generation == 0 && it.Kind() != namespaceKind || before.Generation != answer.GetGeneration() ||
		!maps.Equal(before.Labels, answer.GetLabels()) || !maps.Equal(before.Annotations, answer.GetAnnotations()) ||
		!owned(before.ManagedFields).Equal(owned(answer.GetManagedFields())):
		return configured
	}
	return unchanged
}

// owned is when kplan last changed something of its own: the time of its entry
// stays when applying changes nothing.
func owned(entries []metav1.ManagedFieldsEntry) *metav1.Time {
	for _, e := range entries {
		if e.Manager == fieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" {
			return e.Time
		}
	}
	return nil
}

// ask reads the metadata that an object has before it is applied. For
// those who may not read every object counts as configured.
func (r *run) ask(ctx context.Context, it *item) error {
	wait, began := newBackOff(), time.Now()
	for {
		o, err := r.metadataOf(it).Get(ctx, it.GetName(), metav1.GetOptions{})
		switch {
		case err == nil:
			it.before = &o.ObjectMeta
			return nil
		case apierrors.IsNotFound(err):
			return nil
		case apierrors.IsForbidden(err):
			it.hidden = true
			return nil
		case ctx.Err() != nil || time.Since(began) > patience || !transient(err, it):
			return err
		}
		if err := watch.Pause(ctx, wait.NextBackOff()); err != nil {
			return err
		}
	}
}

// gone waits until an object that is being deleted is, so that it can be made anew.
func (r *run) gone(ctx context.Context, it *item) error {
	r.log(it.ID() + " is being deleted: waiting until it is gone")
	target := watch.TargetOf(it.Unstructured)
	return watch.Until(ctx, r.session, watch.Wait{
		Targets: []watch.Target{target}, For: target.String() + " to be deleted", Deletion: true,
		Judge: func(_ watch.Target, u *unstructured.Unstructured) watch.Reading {
			if u == nil {
				return watch.Reading{State: watch.Reached, Reason: "deleted"}
			}
			return watch.Reading{State: watch.Waiting, Reason: "being deleted, finalizers: " + strings.Join(u.GetFinalizers(), ", ")}
		},
		Notice: r.log,
	})
}

// explain returns the cause of a request that ended with the context, and hints otherwise.
func (r *run) explain(ctx context.Context, it *item, verb string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	op := kubeerr.Op{Verb: verb, Resource: it.mapping.Resource.GroupResource(), Namespace: it.GetNamespace()}
	return kubeerr.Explain(kubeerr.Redact(err, it.Unstructured), op)
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
		Notice: r.log,
	})
	if err == nil && changed {
		r.session.Cluster.Refresh()
	}
	return err
}

// transient reports whether a fault passes by itself. A webhook that cannot be
// called is none: the transport holds such requests, so one that comes here was
// given up.
func transient(err error, it *item) bool {
	switch {
	case kubeerr.Denied(err), len(kubeerr.Owners(err)) > 0:
		return false
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsTooManyRequests(err),
		apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err):
		return true
	case apierrors.IsNotFound(err) && it.fresh:
		return about(err) != "namespaces"
	case apierrors.IsInternalError(err):
		// No type tells these from others; the words are etcd's (server/etcdserver/errors).
		return strings.Contains(err.Error(), "etcdserver: leader changed") || strings.Contains(err.Error(), "etcdserver: request timed out")
	case apierrors.IsForbidden(err) && it.Kind() == schema.GroupKind{Kind: "Pod"}:
		// The default ServiceAccount of a new namespace comes a moment after it
		// (k8s.io/kubernetes plugin/pkg/admission/serviceaccount).
		return strings.Contains(err.Error(), "error looking up service account")
	}
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) ||
		utilnet.IsProbableEOF(err) || errors.Is(err, io.ErrUnexpectedEOF)
}

// about is the kind that an error is about; "" when that is not known.
func about(err error) string {
	status := apierrors.APIStatus(nil)
	if errors.As(err, &status) && status.Status().Details != nil {
		return status.Status().Details.Kind
	}
	return ""
}

func newBackOff() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(3*time.Second), backoff.WithMaxElapsedTime(0),
	)
}
