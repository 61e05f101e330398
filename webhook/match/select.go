package match

import (
	"fmt"
	"maps"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	objectselector "k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/object"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"

	"github.com/kplan-dev/kplan/webhook"
)

// namespace checks the namespaceSelector, as
// pkg/admission/plugin/webhook/predicates/namespace/matcher.go. It returns why
// the webhook is left out, "" if it is not.
func (m *Matcher) namespace(e webhook.Entry, q *request, d *doubts) string {
	if q.Namespace == "" && q.Resource.Resource != "namespaces" {
		return "" // cluster-scoped
	}
	selector, err := selectorOf(e.NamespaceSelector)
	if err != nil {
		d.addf("its namespaceSelector is invalid: %v", err)
		return ""
	}
	if selector.Empty() {
		return ""
	}
	set, known := m.labels(q)
	if !known && !q.own() && byNameOnly(selector) {
		set, known = labels.Set{corev1.LabelMetadataName: q.Namespace}, true
	}
	switch {
	case !known:
		d.addf("its namespaceSelector needs the labels of namespace %q, which are not known", q.Namespace)
		return ""
	case selector.Matches(set):
		return ""
	case q.own():
		return "its namespaceSelector leaves the namespace's own labels out"
	}
	return fmt.Sprintf("its namespaceSelector leaves namespace %q out", q.Namespace)
}

// byNameOnly reports whether a selector asks for nothing but the label that every
// namespace has of its name.
func byNameOnly(s labels.Selector) bool {
	requirements, _ := s.Requirements()
	return !slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return r.Key() != corev1.LabelMetadataName })
}

// labels returns those of the request's namespace.
func (m *Matcher) labels(q *request) (labels.Set, bool) {
	if q.own() {
		if q.Object == nil {
			return nil, false
		}
		return q.Object.GetLabels(), true
	}
	if m.Cluster.Labels != nil {
		if given, known := m.Cluster.Labels(q.Namespace); known {
			set := labels.Set{corev1.LabelMetadataName: q.Namespace}
			maps.Copy(set, given)
			return set, true
		}
	}
	// A namespace that is deleted, or whose status is written, has itself along.
	if q.Kind == corev1.SchemeGroupVersion.WithKind("Namespace") && q.OldObject != nil {
		return q.OldObject.GetLabels(), true
	}
	return nil, false
}

// object checks the objectSelector: one of new and old object must match.
func object(e webhook.Entry, q *request, d *doubts) string {
	selector, err := selectorOf(e.ObjectSelector)
	if err != nil {
		d.addf("its objectSelector is invalid: %v", err)
		return ""
	}
	if !selector.Empty() && q.Operation == admissionv1.Connect {
		return "its objectSelector finds no labels in a connection"
	}
	// The API server's own matcher never fails with a parsed selector.
	if matches, _ := (&objectselector.Matcher{}).MatchObjectSelector(parsed{selector}, q.attrs); matches {
		return ""
	}
	if object, old := q.lacks(); object || old {
		d.addf("its objectSelector needs the object's labels, which are not known")
		return ""
	}
	return "its objectSelector leaves the object's labels out"
}

// parsed returns a selector to the API server's matcher.
type parsed struct{ labels.Selector }

func (p parsed) GetParsedObjectSelector() (labels.Selector, error) { return p.Selector, nil }

// selectorOf reads a selector; one that is missing selects all, as the API
// server's default does.
func selectorOf(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

// rule looks for a rule that names the request, or with matchPolicy Equivalent
// an equivalent of it. It returns the resource that matched, or why none did;
// neither when it may be one that is not known.
func (m *Matcher) rule(e webhook.Entry, q *request, d *doubts) (schema.GroupVersionResource, string) {
	none := schema.GroupVersionResource{}
	if anyRule(e, q.attrs) {
		if q.review() {
			d.addf("API servers send no %s to webhooks since Kubernetes 1.37", q.Resource.Resource)
		}
		return q.Resource, ""
	}
	reason := fmt.Sprintf("its rules leave %s of %s out", q.Operation, q.title())
	if e.MatchPolicy == admissionv1.Exact {
		return none, reason
	}
	equivalents, known := m.Cluster.Resources.equivalents(q.Resource, q.Subresource)
	if !known {
		// Any version might be one.
		if anyVersion(e, q) {
			d.addf("its rules name another version of %s, and whether that is served is not known", q.title())
			return none, ""
		}
		return none, reason
	}
	for _, rule := range e.Rules {
		for _, r := range equivalents {
			if r != q.Resource && (&rules.Matcher{Rule: rule, Attr: renamed{q.attrs, r}}).Matches() {
				return r, ""
			}
		}
	}
	return none, reason
}

// anyRule reports whether a rule names what is asked.
func anyRule(e webhook.Entry, attrs admission.Attributes) bool {
	return slices.ContainsFunc(e.Rules, func(rule admissionv1.RuleWithOperations) bool {
		return (&rules.Matcher{Rule: rule, Attr: attrs}).Matches()
	})
}

// anyVersion reports whether a rule would name the request but for the version.
func anyVersion(e webhook.Entry, q *request) bool {
	return slices.ContainsFunc(e.Rules, func(rule admissionv1.RuleWithOperations) bool {
		rule.APIVersions = []string{"*"}
		return (&rules.Matcher{Rule: rule, Attr: q.attrs}).Matches()
	})
}

// title names the requested resource for people.
func (q *request) title() string {
	resource := q.Resource.Resource
	if q.Subresource != "" {
		resource += "/" + q.Subresource
	}
	return q.Resource.GroupVersion().String() + " " + resource
}

// renamed is a request for an equivalent resource.
type renamed struct {
	admission.Attributes
	resource schema.GroupVersionResource
}

func (r renamed) GetResource() schema.GroupVersionResource { return r.resource }
