package guard

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/webhook/match"
)

// Known is what is known of the cluster. The zero value knows nothing of it.
type Known struct {
	// Labels gives those of a namespace that exists.
	Labels func(namespace string) (map[string]string, bool)
	// Served are the resources that it serves, as discovery lists them.
	Served []*metav1.APIResourceList
}

// resolver knows the resources of kinds: those of the plan's CRDs, of the cluster,
// and of Kubernetes itself.
type resolver struct {
	custom    map[schema.GroupKind]kinds.Definition
	served    map[schema.GroupVersionKind]metav1.APIResource
	resources match.Resources
}

func newResolver(served []*metav1.APIResourceList) *resolver {
	k := &resolver{custom: map[schema.GroupKind]kinds.Definition{}, served: map[schema.GroupVersionKind]metav1.APIResource{}}
	for _, list := range served {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // no API server serves such a version
		}
		_ = k.resources.AddDiscovery(list)
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") { // no subresource
				k.served[gv.WithKind(r.Kind)] = r
			}
		}
	}
	return k
}

// add takes note of a CRD.
func (k *resolver) add(crd *unstructured.Unstructured) error {
	if err := k.resources.AddCRD(crd); err != nil {
		return err
	}
	d := kinds.DefinitionOf(crd)
	k.custom[d.GroupKind] = d
	return nil
}

// converted reports whether an object of the kind is converted to be stored.
func (k *resolver) converted(gvk schema.GroupVersionKind) bool {
	return k.custom[gvk.GroupKind()].Storage != gvk.Version
}

// resource returns the resource of a kind and whether it is namespaced. What
// nobody knows is guessed: most kinds are namespaced, and have regular plurals.
func (k *resolver) resource(gvk schema.GroupVersionKind) (schema.GroupVersionResource, bool) {
	if d, ok := k.custom[gvk.GroupKind()]; ok {
		return gvk.GroupVersion().WithResource(d.Plural), d.Namespaced
	}
	if r, ok := k.served[gvk]; ok {
		return gvk.GroupVersion().WithResource(r.Name), r.Namespaced
	}
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return plural, !slices.Contains(clusterScoped, gvk.GroupKind())
}

// Namespaced tells of kinds whether their objects have namespaces: of those that
// CRDs among the objects define, and of those of Kubernetes itself. Others are
// taken to have.
func Namespaced(objects []*unstructured.Unstructured) func(schema.GroupVersionKind) bool {
	resource := Resources(nil, objects)
	return func(gvk schema.GroupVersionKind) bool {
		_, namespaced := resource(gvk)
		return namespaced
	}
}

// Resources tells the resource of a kind, and whether its objects have namespaces: of the
// kinds that a cluster serves, of those that CRDs among the objects define, and of those of
// Kubernetes itself. Others are guessed.
func Resources(served []*metav1.APIResourceList, objects []*unstructured.Unstructured) func(schema.GroupVersionKind) (schema.GroupVersionResource, bool) {
	k := newResolver(served)
	for _, o := range objects {
		if kinds.IsDefinition(o) {
			_ = k.add(o) // one that means nothing defines no kind
		}
	}
	return k.resource
}

// clusterScoped are the kinds of Kubernetes itself that have no namespace
// (kubectl api-resources --namespaced=false, Kubernetes v1.36), but for those
// that charts cannot bring.
var clusterScoped = []schema.GroupKind{
	{Group: "", Kind: "Namespace"},
	{Group: "", Kind: "Node"},
	{Group: "", Kind: "PersistentVolume"},
	{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"},
	{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicyBinding"},
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"},
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"},
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicyBinding"},
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"},
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"},
	{Group: "apiregistration.k8s.io", Kind: "APIService"},
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"},
	{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"},
	{Group: "flowcontrol.apiserver.k8s.io", Kind: "FlowSchema"},
	{Group: "flowcontrol.apiserver.k8s.io", Kind: "PriorityLevelConfiguration"},
	{Group: "networking.k8s.io", Kind: "IngressClass"},
	{Group: "networking.k8s.io", Kind: "ServiceCIDR"},
	{Group: "node.k8s.io", Kind: "RuntimeClass"},
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"},
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"},
	{Group: "resource.k8s.io", Kind: "DeviceClass"},
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"},
	{Group: "storage.k8s.io", Kind: "CSIDriver"},
	{Group: "storage.k8s.io", Kind: "StorageClass"},
	{Group: "storage.k8s.io", Kind: "VolumeAttributesClass"},
}
