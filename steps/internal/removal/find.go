package removal

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
)

// listFrom is from how many objects of a kind and namespace on one list is cheaper
// than asking for each.
const listFrom = 10

// Find reads those objects that are there, in the order in which they are named.
// Objects that name no namespace get this one. An object whose kind the API server
// does not serve is gone with it.
func Find(ctx context.Context, s *cluster.Session, named []*unstructured.Unstructured, namespace string) ([]Object, error) {
	type place struct {
		resource  schema.GroupVersionResource
		namespace string
	}
	groups := map[place][]sought{}
	for i, u := range named {
		m, err := Mapping(ctx, s, u.GroupVersionKind())
		if err != nil {
			return nil, err
		}
		if m == nil {
			continue
		}
		p := place{resource: m.Resource}
		if m.Scope.Name() == meta.RESTScopeNameNamespace {
			p.namespace = cmp.Or(u.GetNamespace(), namespace, s.Cluster.Namespace())
		}
		groups[p] = append(groups[p], sought{m, u.GetName(), i})
	}
	found := make([]*Object, len(named))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for p, all := range groups {
		group.Go(func() error { return readAll(ctx, s, p.namespace, all, found) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var out []Object
	for _, o := range found {
		if o != nil {
			out = append(out, *o)
		}
	}
	return out, nil
}

// sought is an object that Find looks for, and its place among those that are named.
type sought struct {
	mapping *meta.RESTMapping
	name    string
	at      int
}

// readAll reads objects of one kind and namespace, and writes each to its place in found.
func readAll(ctx context.Context, s *cluster.Session, namespace string, all []sought, found []*Object) error {
	if len(all) >= listFrom {
		live := map[string]*Object{}
		list, err := List(ctx, s, all[0].mapping, namespace, "")
		for i := range list {
			live[list[i].GetName()] = &list[i]
		}
		if err == nil || !apierrors.IsForbidden(err) {
			for _, one := range all {
				found[one.at] = live[one.name]
			}
			return err
		}
	}
	for _, one := range all {
		var err error
		if found[one.at], err = get(ctx, s, one.mapping, namespace, one.name); err != nil {
			return err
		}
	}
	return nil
}

// Mapping finds a kind's resource, in another version if this one is not served; nil
// if the kind is not.
func Mapping(ctx context.Context, s *cluster.Session, gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	m, err := s.Cluster.Mapping(ctx, gvk)
	if meta.IsNoMatchError(err) && gvk.Version != "" {
		m, err = s.Cluster.Mapping(ctx, gvk.GroupKind().WithVersion(""))
	}
	switch {
	case meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, kubeerr.Explain(err, kubeerr.Op{})
	}
	return m, nil
}

// List reads all objects of a resource, or those that a selector picks.
func List(ctx context.Context, s *cluster.Session, m *meta.RESTMapping, namespace, selector string) ([]Object, error) {
	list, err := s.Resource(m, namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, kubeerr.Explain(fmt.Errorf("listing %s: %w", m.Resource.GroupResource(), cause(ctx, err)),
			kubeerr.Op{Verb: "list", Resource: m.Resource.GroupResource(), Namespace: namespace})
	}
	out := make([]Object, len(list.Items))
	for i := range list.Items {
		out[i] = Object{Unstructured: &list.Items[i], Mapping: m}
	}
	return out, nil
}

func get(ctx context.Context, s *cluster.Session, m *meta.RESTMapping, namespace, name string) (*Object, error) {
	u, err := s.Resource(m, namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, kubeerr.Explain(fmt.Errorf("reading %s %s: %w", m.GroupVersionKind.Kind, name, cause(ctx, err)),
			kubeerr.Op{Verb: "get", Resource: m.Resource.GroupResource(), Namespace: namespace})
	}
	return &Object{Unstructured: u, Mapping: m}, nil
}

// cause prefers the reason for which a context ended to what a client made of it.
func cause(ctx context.Context, err error) error {
	if stop := context.Cause(ctx); stop != nil && !errors.Is(stop, context.Canceled) {
		return stop
	}
	return err
}
