package match

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/scheme"
)

// request is a Request as the API server prepares it for admission.
type request struct {
	Request
	attrs admission.Attributes
}

func prepare(r Request) *request {
	if r.Name == "" && r.Object != nil {
		r.Name = r.Object.GetName()
	}
	if r.Resource.GroupResource() == corev1.Resource("namespaces") {
		r.Namespace = ""
	}
	if r.Object != nil {
		r.Object = filled(r)
	}
	namespace := r.Namespace
	// A namespace is in itself, by its name in the URL (pkg/endpoints/request
	// requestinfo.go) and on creation (pkg/endpoints/handlers/create.go).
	if r.Resource.Resource == "namespaces" && (r.Resource.Group == "" || r.Operation != admissionv1.Create) {
		namespace = r.Name
	}
	q := &request{Request: r}
	q.Namespace = namespace
	q.attrs = admission.NewAttributesRecord(orNil(r.Object), orNil(r.OldObject), r.Kind, namespace, r.Name, r.Resource, r.Subresource,
		admission.Operation(r.Operation), nil, r.DryRun, info(r.User))
	return q
}

// filled is the new object with what the API server always fills in: kind,
// namespace (pkg/registry/rest EnsureObjectNamespaceMatchesRequestNamespace)
// and a Namespace's label of its name.
func filled(r Request) *unstructured.Unstructured {
	u := r.Object
	set := func(value string, fields ...string) {
		if had, _, _ := unstructured.NestedString(u.Object, fields...); value == "" || had == value {
			return
		}
		if u == r.Object {
			u = u.DeepCopy()
		}
		if u.Object == nil {
			u.Object = map[string]any{}
		}
		// It fails where the parent is no map, which the API server refuses.
		_ = unstructured.SetNestedField(u.Object, value, fields...)
	}
	set(r.Kind.GroupVersion().String(), "apiVersion")
	set(r.Kind.Kind, "kind")
	set(r.Namespace, "metadata", "namespace")
	if r.Kind == corev1.SchemeGroupVersion.WithKind("Namespace") {
		set(r.Name, "metadata", "labels", corev1.LabelMetadataName)
	}
	return u
}

// exempt reports whether webhooks never hear of such objects.
func (q *request) exempt() bool { return rules.IsExemptAdmissionConfigurationResource(q.attrs) }

// reviews are not sent to webhooks by API servers since Kubernetes 1.37
// (KEP-5793; kubernetes/kubernetes pkg/kubeapiserver/admission/exclusion).
func (q *request) review() bool {
	switch q.Resource.Group {
	case "authentication.k8s.io":
		return slices.Contains([]string{"selfsubjectreviews", "tokenreviews"}, q.Resource.Resource)
	case "authorization.k8s.io":
		return slices.Contains([]string{
			"localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews",
		}, q.Resource.Resource)
	}
	return false
}

// lacks reports which objects the request has, but are not known.
func (q *request) lacks() (object, oldObject bool) {
	object = q.Object == nil && q.Operation != admissionv1.Delete
	oldObject = q.OldObject == nil && (q.Operation == admissionv1.Update || q.Operation == admissionv1.Delete)
	return object, oldObject
}

// own reports whether the request writes a namespace itself, whose labels then
// are those of the new object (predicates/namespace/matcher.go).
func (q *request) own() bool {
	return q.Resource.Resource == "namespaces" && q.Subresource == "" &&
		(q.Operation == admissionv1.Create || q.Operation == admissionv1.Update)
}

// kind is the kind that a webhook gets which matched through a resource. The
// object of a subresource may be of another group, and is then left alone.
func (q *request) kind(resource schema.GroupVersionResource) schema.GroupVersionKind {
	if q.Kind.GroupVersion() != q.Resource.GroupVersion() {
		return q.Kind
	}
	return resource.GroupVersion().WithKind(q.Kind.Kind)
}

// convert fills in the objects of the kind that the webhook gets. It is false
// if there is one which cannot be converted here.
func (q *request) convert(v *admission.VersionedAttributes, resources *Resources) bool {
	for _, o := range []struct {
		from *unstructured.Unstructured
		to   *admission.LazyObject
	}{{q.Object, &v.VersionedObject}, {q.OldObject, &v.VersionedOldObject}} {
		if o.from == nil {
			continue
		}
		u := o.from
		if v.VersionedKind != q.Kind {
			u = resources.convert(u, q.Resource.GroupResource(), v.VersionedKind)
		}
		if u == nil {
			return false
		}
		o.to.Set(typed(u))
	}
	return true
}

// typed returns an object its Go type, if it is a built-in one, so that
// conditions see what the API server decodes: "1" for a quantity of 1, and no
// empty values. The object is returned as it is otherwise.
func typed(u *unstructured.Unstructured) runtime.Object {
	o, err := scheme.Scheme.New(u.GroupVersionKind())
	if err != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o) != nil {
		return u
	}
	return o
}

// orNil avoids an interface that holds a nil pointer.
func orNil(u *unstructured.Unstructured) runtime.Object {
	if u == nil {
		return nil
	}
	return u
}

func info(u *authenticationv1.UserInfo) user.Info {
	if u == nil {
		return nil
	}
	extra := make(map[string][]string, len(u.Extra))
	for k, v := range u.Extra {
		extra[k] = v
	}
	return &user.DefaultInfo{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: extra}
}
