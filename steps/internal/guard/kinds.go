package guard

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/webhook/match"
)

// Known is what is known of the cluster. The zero value knows nothing of it.
type Known struct {
	// Labels gives those of a namespace that exists.
	Labels func(namespace string) (map[string]string, bool)
	// Served are the resources that it serves, as discovery lists them.
	Served []*metav1.APIResourceList
}

// kinds knows the resources of kinds: those of the plan's CRDs, of the cluster,
// and of Kubernetes itself.
type kinds struct {
	custom    map[schema.GroupKind]definition
	served    map[schema.GroupVersionKind]metav1.APIResource
	resources match.Resources
}

// definition is what a CRD says of its kind.
type definition struct {
	plural     string
	namespaced bool
	storage    string // the version that is stored
}

func newKinds(served []*metav1.APIResourceList) *kinds {
	k := &kinds{custom: map[schema.GroupKind]definition{}, served: map[schema.GroupVersionKind]metav1.APIResource{}}
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
func (k *kinds) add(crd *unstructured.Unstructured) error {
	if err := k.resources.AddCRD(crd); err != nil {
		return err
	}
	field := func(path ...string) string {
		s, _, _ := unstructured.NestedString(crd.Object, append([]string{"spec"}, path...)...)
		return s
	}
	d := definition{plural: field("names", "plural"), namespaced: field("scope") == "Namespaced"}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		m, _ := v.(map[string]any)
		if stored, _ := m["storage"].(bool); stored {
			d.storage, _ = m["name"].(string)
		}
	}
	k.custom[schema.GroupKind{Group: field("group"), Kind: field("names", "kind")}] = d
	return nil
}

// converted tells whether an object of the kind is converted to be stored.
func (k *kinds) converted(gvk schema.GroupVersionKind) bool {
	return k.custom[gvk.GroupKind()].storage != gvk.Version
}

// resource gives the resource of a kind and whether it is namespaced. What
// nobody knows is guessed: most kinds are namespaced, and have regular plurals.
func (k *kinds) resource(gvk schema.GroupVersionKind) (schema.GroupVersionResource, bool) {
	if d, ok := k.custom[gvk.GroupKind()]; ok {
		return gvk.GroupVersion().WithResource(d.plural), d.namespaced
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
	k := newKinds(nil)
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			_ = k.add(o) // one that means nothing defines no kind
		}
	}
	return func(gvk schema.GroupVersionKind) bool {
		_, namespaced := k.resource(gvk)
		return namespaced
	}
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
