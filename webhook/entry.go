package webhook

import (
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// Entry is one webhook that an API server calls: one of a validating or
// mutating webhook configuration, or the conversion webhook of a
// CustomResourceDefinition. What the API server would default is filled in, so
// that an entry of a manifest reads like one of a cluster.
type Entry struct {
	// Kind is Validating, Mutating or Conversion.
	Kind Kind
	// Configuration is the name of the webhook configuration, or of the CRD.
	Configuration string
	// Name is the webhook's own name; a conversion webhook has that of its CRD.
	Name  string
	Owner Owner
	// Labels are those of the object that configures it.
	Labels map[string]string
	// Created is when the configuration was; zero for one of a manifest.
	Created time.Time
	// Client says how it is called. For Conversion it is the CRD's
	// spec.conversion.webhook.clientConfig, which has the same fields.
	Client admissionv1.WebhookClientConfig

	// The rest is empty for Conversion.
	Rules              []admissionv1.RuleWithOperations
	MatchPolicy        admissionv1.MatchPolicyType
	FailurePolicy      admissionv1.FailurePolicyType
	SideEffects        admissionv1.SideEffectClass
	ReinvocationPolicy admissionv1.ReinvocationPolicyType
	NamespaceSelector  *metav1.LabelSelector
	ObjectSelector     *metav1.LabelSelector
	MatchConditions    []admissionv1.MatchCondition
	// Timeout is how long the API server waits for an answer.
	Timeout time.Duration

	// Converts is what a conversion webhook converts; empty for the others.
	Converts schema.GroupKind
}

// String names the entry for people.
func (e Entry) String() string {
	if e.Kind == Conversion {
		return "conversion webhook of " + e.Configuration
	}
	return fmt.Sprintf("%s webhook %q of %s", e.Kind, e.Name, e.Configuration)
}

// Service is namespace/name of the Service that is called; "" for a URL.
func (e Entry) Service() string {
	if e.Client.Service == nil {
		return ""
	}
	return e.Client.Service.Namespace + "/" + e.Client.Service.Name
}

// Port is the port of the Service that is called.
func (e Entry) Port() int32 {
	if e.Client.Service == nil || e.Client.Service.Port == nil {
		return 443 // the API's default
	}
	return *e.Client.Service.Port
}

// Source is the object that configures the entry.
func (e Entry) Source() Object {
	kind := map[Kind]string{
		Validating: "ValidatingWebhookConfiguration",
		Mutating:   "MutatingWebhookConfiguration",
		Conversion: "CustomResourceDefinition",
	}[e.Kind]
	return Object{Kind: kind, Name: e.Configuration}
}

// Is reports whether both are the same webhook, perhaps at different times.
func (e Entry) Is(o Entry) bool {
	return e.Kind == o.Kind && e.Configuration == o.Configuration && e.Name == o.Name
}

// Matches reports whether a fault is one of this webhook, as far as its text goes.
func (e Entry) Matches(f Fault) bool {
	switch f.Kind {
	case Conversion:
		// "GROUP/VERSION, Kind=KIND", as schema.GroupVersionKind prints it.
		gv, kind, _ := strings.Cut(f.Webhook, ", Kind=")
		group, _, _ := strings.Cut(gv, "/")
		return e.Kind == Conversion && e.Converts == schema.GroupKind{Group: group, Kind: kind}
	case Admission:
		if e.Kind == Conversion || e.Name != f.Webhook {
			return false
		}
		key := f.ServiceKey()
		return key == "" || key == e.Service()
	default: // it is not about a webhook, or about no certain one
		return false
	}
}

// Object names an object of the API server.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns Kind/namespace/name.
func (o Object) String() string {
	parts := slices.DeleteFunc([]string{o.Kind, o.Namespace, o.Name}, func(s string) bool { return s == "" })
	return strings.Join(parts, "/")
}

// EntriesOf reads the webhooks that an object configures: a
// ValidatingWebhookConfiguration, a MutatingWebhookConfiguration or a
// CustomResourceDefinition, all of version v1. Any other object has none. The
// error says that the object is not what its kind demands.
func EntriesOf(u *unstructured.Unstructured) ([]Entry, error) {
	gvk := u.GroupVersionKind()
	var entries []Entry
	var err error
	switch kind := gvk.GroupVersion().String() + " " + gvk.Kind; kind {
	case "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration":
		entries, err = admissionOf(u, Validating)
	case "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration":
		entries, err = admissionOf(u, Mutating)
	case "apiextensions.k8s.io/v1 CustomResourceDefinition":
		entries, err = conversionOf(u)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", gvk.Kind, u.GetName(), err)
	}
	for i := range entries {
		entries[i].Configuration, entries[i].Owner = u.GetName(), OwnerOf(u)
		entries[i].Labels, entries[i].Created = u.GetLabels(), u.GetCreationTimestamp().Time
	}
	return entries, nil
}

// admissionOf reads the webhooks of a configuration, and fills in what the API server
// would (kubernetes/kubernetes pkg/apis/admissionregistration/v1/defaults.go). A mutating
// webhook has all the fields of a validating one.
func admissionOf(u *unstructured.Unstructured, kind Kind) ([]Entry, error) {
	c := &admissionv1.MutatingWebhookConfiguration{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, c)
	entries := make([]Entry, len(c.Webhooks))
	for i, w := range c.Webhooks {
		entries[i] = Entry{
			Kind: kind, Name: w.Name, Client: w.ClientConfig, Rules: w.Rules,
			MatchPolicy:       ptr.Deref(w.MatchPolicy, admissionv1.Equivalent),
			FailurePolicy:     ptr.Deref(w.FailurePolicy, admissionv1.Fail),
			SideEffects:       ptr.Deref(w.SideEffects, admissionv1.SideEffectClassUnknown),
			NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, MatchConditions: w.MatchConditions,
			Timeout: time.Duration(ptr.Deref(w.TimeoutSeconds, 10)) * time.Second,
		}
		if kind == Mutating {
			entries[i].ReinvocationPolicy = ptr.Deref(w.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
		}
	}
	return entries, err
}

// conversionOf reads the conversion webhook of a CRD, if it has one.
func conversionOf(u *unstructured.Unstructured) ([]Entry, error) {
	strategy, _, _ := unstructured.NestedString(u.Object, "spec", "conversion", "strategy")
	config, found, err := unstructured.NestedMap(u.Object, "spec", "conversion", "webhook", "clientConfig")
	if strategy != "Webhook" || !found {
		return nil, err
	}
	e := Entry{Kind: Conversion, Name: u.GetName(), Timeout: 30 * time.Second}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(config, &e.Client); err != nil {
		return nil, err
	}
	e.Converts.Group, _, _ = unstructured.NestedString(u.Object, "spec", "group")
	e.Converts.Kind, _, _ = unstructured.NestedString(u.Object, "spec", "names", "kind")
	return []Entry{e}, nil
}

// Owner says who brought an object, as far as the object tells.
type Owner struct {
	// Release is the Helm release that the object belongs to, as
	// namespace/name; "" when it is none's.
	Release string `json:"release,omitempty"`
	// Controller is the object that owns it, as Kind/name.
	Controller string `json:"controller,omitempty"`
	// Manager is the field manager that wrote it first.
	Manager string `json:"manager,omitempty"`
	// Labels are those of the recommended labels that name an owner.
	Labels map[string]string `json:"labels,omitempty"`
}

// ownerLabels are the recommended labels that say whose an object is
// (https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/).
var ownerLabels = []string{
	"app.kubernetes.io/instance", "app.kubernetes.io/part-of", "app.kubernetes.io/name", "app.kubernetes.io/managed-by",
}

// OwnerOf reads who brought an object. The release comes from the annotations
// that Helm puts on every object of one (helm.sh/helm/v3 pkg/action/validate.go).
func OwnerOf(u *unstructured.Unstructured) Owner {
	var o Owner
	if name := u.GetAnnotations()["meta.helm.sh/release-name"]; name != "" {
		o.Release = u.GetAnnotations()["meta.helm.sh/release-namespace"] + "/" + name
	}
	if c := metav1.GetControllerOfNoCopy(u); c != nil {
		o.Controller = c.Kind + "/" + c.Name
	}
	for _, l := range ownerLabels {
		if v := u.GetLabels()[l]; v != "" {
			if o.Labels == nil {
				o.Labels = map[string]string{}
			}
			o.Labels[l] = v
		}
	}
	if managers := u.GetManagedFields(); len(managers) > 0 {
		first := slices.MinFunc(managers, func(a, b metav1.ManagedFieldsEntry) int {
			return ptr.Deref(a.Time, metav1.Time{}).Compare(ptr.Deref(b.Time, metav1.Time{}).Time)
		})
		o.Manager = first.Manager
	}
	return o
}

// String names the owner for people, "" when nothing is known of it.
func (o Owner) String() string {
	switch {
	case o.Release != "":
		return "Helm release " + o.Release
	case o.Controller != "":
		return o.Controller
	}
	for _, l := range ownerLabels[:3] {
		if v := o.Labels[l]; v != "" {
			return v
		}
	}
	if o.Manager != "" {
		return "field manager " + o.Manager
	}
	return ""
}
