package helm

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/engine"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/watch"
)

const (
	// lookups is how many objects are looked up at the same time.
	lookups = 16
	// listFrom is from how many objects of a kind and namespace on a list is cheaper
	// than asking for each, and page is how many come with one answer.
	listFrom = 10
	page     = 500
)

// reader reads how the cluster has the objects of a release. It sends nothing but dry
// runs.
type reader struct{ session *cluster.Session }

// place is a kind and a namespace, whose objects come with one list.
type place struct {
	schema.GroupVersionResource
	namespace string
}

// byPlace gives the indices of the objects of each place.
func byPlace(resources []*resource.Info) map[place][]int {
	groups := map[place][]int{}
	for i, info := range resources {
		p := place{info.Mapping.Resource, info.Namespace}
		groups[p] = append(groups[p], i)
	}
	return groups
}

// live reads the objects of resources as the cluster has them, in their order; nil
// where it has none.
func (r reader) live(ctx context.Context, resources engine.ResourceList) ([]*unstructured.Unstructured, error) {
	found := make([]*unstructured.Unstructured, len(resources))
	var lists errgroup.Group
	lists.SetLimit(lookups)
	for _, group := range byPlace(resources) {
		if len(group) >= listFrom {
			lists.Go(func() error {
				r.listed(ctx, resources, group, found)
				return nil
			})
		}
	}
	_ = lists.Wait()
	var (
		gets errgroup.Group
		errs = make([]error, len(resources))
	)
	gets.SetLimit(lookups)
	for i, info := range resources {
		if found[i] == nil {
			gets.Go(func() error {
				found[i], errs[i] = r.get(ctx, info)
				return nil
			})
		}
	}
	_ = gets.Wait()
	for i, err := range errs {
		if err != nil {
			info := resources[i]
			return nil, kubeerr.Explain(err, kubeerr.Op{Verb: "get", Resource: info.Mapping.Resource.GroupResource(), Namespace: info.Namespace})
		}
	}
	return found, nil
}

// listed reads objects of one kind and namespace by lists. Those that it does not
// find, since they have lost their label or may not be listed, are asked for one by
// one after that.
func (r reader) listed(ctx context.Context, resources engine.ResourceList, group []int, found []*unstructured.Unstructured) {
	wanted := map[string]int{}
	for _, i := range group {
		wanted[resources[i].Name] = i
	}
	first := resources[group[0]]
	options := metav1.ListOptions{LabelSelector: managedBy + "=Helm", Limit: page}
	for {
		list, err := r.session.Resource(first.Mapping, first.Namespace).List(ctx, options)
		if err != nil {
			return
		}
		for i := range list.Items {
			if at, ok := wanted[list.Items[i].GetName()]; ok {
				found[at] = &list.Items[i]
			}
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return
		}
	}
}

// get reads one object; nil when it is gone.
func (r reader) get(ctx context.Context, info *resource.Info) (*unstructured.Unstructured, error) {
	u, err := r.session.Resource(info.Mapping, info.Namespace).Get(ctx, info.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", objectOf(info), cause(ctx, err))
	}
	return u, nil
}

// infoOf is what Helm knows of an object whose kind is served.
func (r reader) infoOf(ctx context.Context, u *unstructured.Unstructured) (*resource.Info, error) {
	mapping, err := r.session.Cluster.Mapping(ctx, u.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	info := &resource.Info{Mapping: mapping, Namespace: u.GetNamespace(), Name: u.GetName(), Object: u}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		info.Namespace = ""
	}
	return info, nil
}

func objectOf(info *resource.Info) string {
	t := watch.Target{Kind: info.Mapping.GroupVersionKind, Namespace: info.Namespace, Name: info.Name}
	return t.Object()
}

// contentOf is an object as it was rendered.
func contentOf(info *resource.Info) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(info.Object)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", objectOf(info), err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// removesItself reports whether an object is a Job that is gone some time after it
// ended.
func removesItself(info *resource.Info) bool {
	if info.Mapping.GroupVersionKind.GroupKind() != job {
		return false
	}
	u, err := contentOf(info)
	if err != nil {
		return false
	}
	_, found, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "ttlSecondsAfterFinished")
	return found
}
