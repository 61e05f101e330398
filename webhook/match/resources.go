package match

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resources knows which resources are equivalent, which means that they serve
// the same objects: the versions of a resource, and Events of both their groups. The
// zero value knows none. It is filled first and may then be read concurrently.
type Resources struct {
	// served lists the versions by resource and subresource, in the API server's
	// order, for the first that a rule names wins.
	served map[schema.GroupResource]map[string][]schema.GroupVersionResource
	// plain are the resources whose versions differ in apiVersion only.
	plain map[schema.GroupResource]bool
}

// AddDiscovery adds what discovery lists. Versions of custom resources which
// exist but are not served are missing there, and rules may name them: add the CRD too.
func (r *Resources) AddDiscovery(lists ...*metav1.APIResourceList) error {
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for _, a := range list.APIResources {
			name, subresource, _ := strings.Cut(a.Name, "/")
			r.add(gv.WithResource(name), subresource)
		}
	}
	return nil
}

// AddCRD adds a CustomResourceDefinition of version v1, be it live or planned. It replaces
// what discovery told of the resource.
func (r *Resources) AddCRD(crd *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return err
	}
	if group == "" || plural == "" || len(versions) == 0 {
		return fmt.Errorf("CustomResourceDefinition %s lacks group, plural or versions", crd.GetName())
	}
	gr := schema.GroupResource{Group: group, Resource: plural}
	delete(r.served, shared(gr))
	for _, v := range versions {
		fields, _ := v.(map[string]any)
		name, _, _ := unstructured.NestedString(fields, "name")
		r.add(gr.WithVersion(name), "")
		subresources, _, _ := unstructured.NestedMap(fields, "subresources")
		for s := range subresources {
			r.add(gr.WithVersion(name), s)
		}
	}
	if r.plain == nil {
		r.plain = map[schema.GroupResource]bool{}
	}
	strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy")
	r.plain[gr] = strategy == "" || strategy == "None"
	return nil
}

func (r *Resources) add(resource schema.GroupVersionResource, subresource string) {
	gr := shared(resource.GroupResource())
	if r.served == nil {
		r.served = map[schema.GroupResource]map[string][]schema.GroupVersionResource{}
	}
	if r.served[gr] == nil {
		r.served[gr] = map[string][]schema.GroupVersionResource{}
	}
	if !slices.Contains(r.served[gr][subresource], resource) {
		r.served[gr][subresource] = append(r.served[gr][subresource], resource)
	}
}

// equivalents lists a resource's, itself among them, and whether it is known.
func (r *Resources) equivalents(resource schema.GroupVersionResource, subresource string) ([]schema.GroupVersionResource, bool) {
	if r == nil {
		return nil, false
	}
	list := r.served[shared(resource.GroupResource())][subresource]
	return list, slices.Contains(list, resource)
}

// convert returns a custom resource in another version; nil when that takes
// code which is not here.
func (r *Resources) convert(u *unstructured.Unstructured, gr schema.GroupResource, kind schema.GroupVersionKind) *unstructured.Unstructured {
	if r == nil || !r.plain[gr] {
		return nil
	}
	u = u.DeepCopy()
	u.SetAPIVersion(kind.GroupVersion().String())
	return u
}

// shared is the resource under which equivalent ones are listed. Of the pairs
// in kubernetes/kubernetes pkg/kubeapiserver/default_storage_factory_builder.go,
// Events are the only one that is still served.
func shared(gr schema.GroupResource) schema.GroupResource {
	if gr == (schema.GroupResource{Group: "events.k8s.io", Resource: "events"}) {
		return schema.GroupResource{Resource: "events"}
	}
	return gr
}
