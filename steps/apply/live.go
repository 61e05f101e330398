package apply

import (
	"context"
	"maps"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/fields"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
)

const (
	// listFrom is from how many objects of a kind and namespace on a list is cheaper
	// than asking for each. It is read in pages of pageSize, so that a namespace full
	// of others costs no more memory than that, and given up when strangers times as
	// many were read as are looked for.
	listFrom  = 10
	pageSize  = 500
	strangers = 10
)

// reader reads live objects, and what it takes to compare them with manifests.
type reader struct {
	session *cluster.Session
	slots   chan struct{} // see flow
	schemas schemas
}

func newReader(s *cluster.Session, slots chan struct{}) *reader {
	return &reader{session: s, slots: slots, schemas: schemas{of: map[schema.GroupVersionKind]map[string]any{}}}
}

// survey reads the objects as they are before they are applied, where many of a kind
// and namespace are asked for at once. Where listing is not allowed send asks for each.
func (r *reader) survey(ctx context.Context, items []*item) error {
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
			select {
			case r.slots <- struct{}{}:
				defer func() { <-r.slots }()
			case <-ctx.Done():
				return
			}
			r.list(ctx, group)
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// list reads the objects of one kind and namespace. What goes wrong leaves the rest
// to be asked for one by one, which tells.
func (r *reader) list(ctx context.Context, group []*item) {
	open := make(map[string]*item, len(group))
	for _, it := range group {
		open[it.GetName()] = it
	}
	options := metav1.ListOptions{Limit: pageSize, FieldSelector: selectorOf(group)}
	for seen := 0; seen <= strangers*max(len(group), pageSize); {
		page, err := repeated(ctx, r.session, func() (*unstructured.UnstructuredList, error) { return group[0].client.List(ctx, options) })
		if err != nil {
			return
		}
		for _, u := range page.Items {
			if it := open[u.GetName()]; it != nil {
				it.before, it.read = &u, true
				delete(open, u.GetName())
			}
		}
		seen += len(page.Items)
		if options.Continue = page.GetContinue(); options.Continue == "" {
			for _, it := range open {
				it.read = true
			}
			return
		}
		if len(open) == 0 {
			return
		}
	}
}

// selectorOf leaves Helm's releases out of a list of Secrets: each can be as large as a
// thousand others.
func selectorOf(group []*item) string {
	const releases = "helm.sh/release.v1"
	if group[0].Kind() != secretKind {
		return ""
	}
	for _, it := range group {
		if kind, _, _ := unstructured.NestedString(it.Object.Object, "type"); kind == releases {
			return ""
		}
	}
	return "type!=" + releases
}

// ask reads an object before it is applied. For those who may not read every object
// counts as configured.
func (r *reader) ask(ctx context.Context, it *item) error {
	var e endurance
	for {
		u, err := it.client.Get(ctx, it.GetName(), metav1.GetOptions{})
		switch {
		case err == nil:
			it.before = u
			return nil
		case apierrors.IsNotFound(err):
			return nil
		case apierrors.IsForbidden(err):
			it.hidden = true
			return nil
		case !e.again(ctx, r.session, err, it):
			return err
		}
	}
}

// met reports whether applying an object would change nothing: the live one has each
// value that the manifest sets, and kplan owns what the manifest sets and nothing more.
// In doubt it would; then the API server decides.
func (r *reader) met(ctx context.Context, it *item) bool {
	live := it.before
	if live == nil || live.GetDeletionTimestamp() != nil || it.GetUID() != "" || it.GetResourceVersion() != "" {
		return false
	}
	ours, found, err := fields.Applied(live, fieldManager)
	if err != nil {
		return false
	}
	if !found { // the API server notes nobody who owns nothing
		ours.Set, ours.APIVersion = fieldpath.NewSet(), it.GetAPIVersion()
	}
	if ours.APIVersion != it.GetAPIVersion() || !fields.Set(it.Unstructured, ours.Set).Equals(ours.Set) {
		return false
	}
	if len(fields.Unmet(it.Unstructured, live, ours.Set)) == 0 {
		return true
	}
	schema := r.schemaOf(ctx, it.mapping)
	return schema != nil && len(fields.UnmetIn(it.Unstructured, live, ours.Set, schema)) == 0
}

// schemas are those that were read, so that each is only once.
type schemas struct {
	mu sync.Mutex
	of map[schema.GroupVersionKind]map[string]any
}

// schemaOf is the schema that a custom resource's definition has for its version; nil
// when that cannot be read.
func (r *reader) schemaOf(ctx context.Context, mapping *meta.RESTMapping) map[string]any {
	gvk := mapping.GroupVersionKind
	if !kinds.Custom(gvk.Group) {
		return nil
	}
	r.schemas.mu.Lock()
	defer r.schemas.mu.Unlock()
	if known, ok := r.schemas.of[gvk]; ok {
		return known
	}
	var read map[string]any
	definitions := kinds.Definitions.GroupVersion().WithResource("customresourcedefinitions")
	definition, err := r.session.Dynamic.Resource(definitions).Get(ctx, mapping.Resource.GroupResource().String(), metav1.GetOptions{})
	if err == nil {
		read = kinds.SchemaOf(definition, gvk.Version)
	}
	r.schemas.of[gvk] = read
	return read
}

// take keeps an object as it is in the end. Who owns its fields is of no interest any
// more, and as large as the rest.
func (it *item) take(answer *unstructured.Unstructured) {
	answer.SetManagedFields(nil)
	it.answer, it.before = answer, nil
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
	case before.GetResourceVersion() == answer.GetResourceVersion():
		return unchanged
	case before.GetGeneration() == 0 && it.Kind() != namespaceKind || before.GetGeneration() != answer.GetGeneration() ||
		!maps.Equal(before.GetLabels(), answer.GetLabels()) || !maps.Equal(before.GetAnnotations(), answer.GetAnnotations()) ||
		!lastOwn(before).Equal(lastOwn(answer)):
		return configured
	}
	return unchanged
}

// lastOwn is when kplan last changed something of its own: the time of its entry
// stays when applying changes nothing.
func lastOwn(u *unstructured.Unstructured) *metav1.Time {
	for _, e := range u.GetManagedFields() {
		if e.Manager == fieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" {
			return e.Time
		}
	}
	return nil
}
