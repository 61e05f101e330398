package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// The resources that checks of objects read.
var (
	podResource            = corev1.SchemeGroupVersion.WithResource("pods")
	secretResource         = corev1.SchemeGroupVersion.WithResource("secrets")
	configMapResource      = corev1.SchemeGroupVersion.WithResource("configmaps")
	serviceResource        = corev1.SchemeGroupVersion.WithResource("services")
	serviceAccountResource = corev1.SchemeGroupVersion.WithResource("serviceaccounts")
	namespaceResource      = corev1.SchemeGroupVersion.WithResource("namespaces")
	claimResource          = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	eventResource          = corev1.SchemeGroupVersion.WithResource("events")
	quotaResource          = corev1.SchemeGroupVersion.WithResource("resourcequotas")
	jobResource            = batchv1.SchemeGroupVersion.WithResource("jobs")
	deploymentResource     = appsv1.SchemeGroupVersion.WithResource("deployments")
	statefulSetResource    = appsv1.SchemeGroupVersion.WithResource("statefulsets")
	daemonSetResource      = appsv1.SchemeGroupVersion.WithResource("daemonsets")
	roleBindingResource    = rbacv1.SchemeGroupVersion.WithResource("rolebindings")
	clusterBindingResource = rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings")
	definitionResource     = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// atOnce is how many requests one check has under way.
const atOnce = 8

// each calls do with all items, some at once, and returns when all calls have ended.
func each[T any](items []T, do func(T)) {
	var all sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for _, item := range items {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			do(item)
		})
	}
	all.Wait()
}

// resource is one that the API server serves.
type resource struct {
	schema.GroupVersionResource
	kind       string
	namespaced bool
}

// served is what the API server serves.
type served struct {
	// preferred are the listable resources, each in its preferred version.
	preferred []resource
	// lists are those of all versions.
	lists []*metav1.APIResourceList
}

// served reads discovery. What an API service does not tell is noted and left out.
func (c *Cluster) served(ctx context.Context) served {
	return once(c, "served", func() served {
		groups, lists, err := discovery.ToDiscoveryInterfaceWithContext(c.discovery).ServerGroupsAndResourcesWithContext(ctx)
		if err != nil {
			c.miss(fmt.Sprintf("what the API server serves: %v", err))
		}
		preferred := map[string]bool{}
		for _, g := range groups {
			preferred[g.PreferredVersion.GroupVersion] = true
		}
		s := served{lists: lists}
		// A resource that the preferred version does not have counts in the first that does.
		known := map[schema.GroupResource]bool{}
		for _, first := range []bool{true, false} {
			for _, l := range lists {
				if preferred[l.GroupVersion] != first {
					continue
				}
				for _, r := range resourcesOf(l) {
					if !known[r.GroupResource()] {
						known[r.GroupResource()] = true
						s.preferred = append(s.preferred, r)
					}
				}
			}
		}
		return s
	})
}

// resourcesOf are the resources of a list whose objects can be listed.
func resourcesOf(l *metav1.APIResourceList) []resource {
	gv, err := schema.ParseGroupVersion(l.GroupVersion)
	if err != nil {
		return nil
	}
	var all []resource
	for _, r := range l.APIResources {
		if !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "list") {
			all = append(all, resource{gv.WithResource(r.Name), r.Kind, r.Namespaced})
		}
	}
	return all
}

// resource finds a resource; false when it is not served.
func (s served) resource(group, name string) (resource, bool) {
	return s.find(func(r resource) bool { return r.Group == group && r.Resource == name })
}

// kind finds the resource of a kind.
func (s served) kind(group, kind string) (resource, bool) {
	return s.find(func(r resource) bool { return r.Group == group && r.kind == kind })
}

func (s served) find(is func(resource) bool) (resource, bool) {
	i := slices.IndexFunc(s.preferred, is)
	if i < 0 {
		return resource{}, false
	}
	return s.preferred[i], true
}

// custom lists the objects of a custom resource; none of one that is not served.
func (c *Cluster) custom(ctx context.Context, group, name string) []*unstructured.Unstructured {
	r, ok := c.served(ctx).resource(group, name)
	if !ok {
		return nil
	}
	return c.list(ctx, r.GroupVersionResource, r.namespaced)
}

// selected lists the objects of a resource in a namespace that selectors select; "" is
// all that are examined.
func (c *Cluster) selected(ctx context.Context, gvr schema.GroupVersionResource, namespace, labels, fields string) []*unstructured.Unstructured {
	return once(c, strings.Join([]string{"select", gvr.String(), namespace, labels, fields}, " "), func() []*unstructured.Unstructured {
		namespaces := []string{namespace}
		if namespace == "" {
			namespaces = c.scope(true)
		}
		var out []*unstructured.Unstructured
		for _, namespace := range namespaces {
			l, err := c.readAll(ctx, gvr, namespace, labels, fields)
			c.note(gvr, err)
			out = append(out, l...)
		}
		return out
	})
}

// readAll lists objects anew; "" is all namespaces.
func (c *Cluster) readAll(ctx context.Context, gvr schema.GroupVersionResource, namespace, labels, fields string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	err := pages(func(o metav1.ListOptions) (string, error) {
		o.LabelSelector, o.FieldSelector = labels, fields
		l, err := c.dynamic.Resource(gvr).Namespace(namespace).List(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range l.Items {
			out = append(out, &l.Items[i])
		}
		return l.GetContinue(), nil
	})
	return out, err
}

// metaPages hands the metadata of objects on, page by page, and keeps nothing.
func (c *Cluster) metaPages(ctx context.Context, gvr schema.GroupVersionResource, namespaced bool, labels string, take func([]metav1.PartialObjectMetadata)) error {
	for _, namespace := range c.scope(namespaced) {
		err := pages(func(o metav1.ListOptions) (string, error) {
			o.LabelSelector = labels
			l, err := c.metadata.Resource(gvr).Namespace(namespace).List(ctx, o)
			if err != nil {
				return "", err
			}
			take(l.Items)
			return l.Continue, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// exists reports whether an object is there, by its metadata alone. known is false when
// that may not be read.
func (c *Cluster) exists(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string) (there, known bool) {
	a := once(c, "exists "+gvr.String()+" "+namespace+"/"+name, func() [2]bool {
		_, err := c.metadata.Resource(gvr).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return [2]bool{false, true}
		}
		c.note(gvr, err)
		return [2]bool{err == nil, err == nil}
	})
	return a[0], a[1]
}

// log reads the end of a pod's log; "" when it cannot be read.
func (c *Cluster) log(ctx context.Context, namespace, pod, container string) string {
	path := []string{"/api/v1/namespaces", namespace, "pods", pod, "log"}
	b, err := c.discovery.RESTClient().Get().AbsPath(path...).
		Param("container", container).Param("tailLines", "50").Param("limitBytes", "65536").Do(ctx).Raw()
	if apierrors.IsForbidden(err) {
		c.miss("logs of pods: " + err.Error())
	}
	if err != nil { // it may be gone
		return ""
	}
	return string(b)
}

// metaOf returns the metadata of one object; nil when it is not there. known is false
// when it may not be read.
func (c *Cluster) metaOf(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string) (o *metav1.PartialObjectMetadata, known bool) {
	type answer struct {
		o     *metav1.PartialObjectMetadata
		known bool
	}
	a := once(c, "metadata "+gvr.String()+" "+namespace+"/"+name, func() answer {
		o, err := c.metadata.Resource(gvr).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return answer{known: true}
		}
		if err != nil {
			c.note(gvr, err)
			return answer{}
		}
		return answer{o, true}
	})
	return a.o, a.known
}
