package explain

import (
	"regexp"

	"github.com/kplan-dev/kplan/webhook"
)

// policies are answers of the API server's own admission: they have judged the object.
var policies = []rule{
	{
		id: "policy-denied", class: Denied, // k8s.io/apiserver pkg/admission/plugin/policy/validating
		has:     []string{"validatingadmissionpolicy '"},
		pattern: regexp.MustCompile(`(?s)ValidatingAdmissionPolicy '(?P<policy>[^']+)'(?:.{0,20}with binding '(?P<binding>[^']+)')?.{0,20}denied request(?:: (?P<reason>.*))?`),
		what:    "the ValidatingAdmissionPolicy {policy} denies the object",
		about:   []webhook.Object{{Kind: "ValidatingAdmissionPolicy", Name: "{policy}"}, {Kind: "ValidatingAdmissionPolicyBinding", Name: "{binding}"}},
		causes:  []string{"the object breaks a rule of the policy: the reason says which", "the policy is bound to more than it is meant for"},
		next:    []string{"kubectl get validatingadmissionpolicy {policy} -o yaml", "kubectl get validatingadmissionpolicybinding {binding} -o yaml"},
	},
	{
		id: "pod-security", class: Denied, // k8s.io/pod-security-admission
		has:     []string{"violates podsecurity"},
		pattern: regexp.MustCompile(`violates PodSecurity "(?P<level>[\w:.-]+)": (?P<reason>.*)`),
		what:    "the namespace enforces the Pod Security Standard {level}, and the pod does not keep it",
		causes: []string{
			"the chart does not set the securityContext that the standard wants: its values mostly can",
			"the namespace is stricter than it is meant to be",
		},
		next: []string{"kubectl get namespace {namespace} -o jsonpath='{.metadata.labels}'", "helm show values CHART"},
	},
	{
		id: "scc", class: Denied, // openshift/apiserver-library-go
		has:    []string{"security context constraint"},
		what:   "no SecurityContextConstraint of OpenShift that the ServiceAccount may use allows the pod",
		causes: []string{"the pod wants a user, group, volume or right that the ServiceAccount's constraints do not allow"},
		next:   []string{"oc adm policy who-can use scc NAME", "oc get scc"},
	},
	{
		id: "quota-exceeded", class: Exhausted, // kubernetes/kubernetes pkg/quota, plugin/pkg/admission/resourcequota
		has:     []string{"exceeded quota: "},
		pattern: regexp.MustCompile(`exceeded quota: (?P<quota>[\w.-]+), (?P<reason>requested: [^"]*)`),
		what:    "the ResourceQuota {quota}[ of namespace {namespace}] has no room for it",
		about:   []webhook.Object{{Kind: "ResourceQuota", Namespace: "{namespace}", Name: "{quota}"}},
		causes: []string{
			"what runs in the namespace takes up the quota: a rolling update needs room for old and new pods",
			"the object requests more than is meant for the namespace",
		},
		next: []string{"kubectl describe resourcequota {quota} -n {namespace}"},
	},
	{
		id: "quota-wants-limits", class: Invalid,
		has:     []string{"failed quota: "},
		pattern: regexp.MustCompile(`[Ff]ailed quota: (?P<quota>[\w.-]+): (?P<reason>must specify [\w.,\[\] /:-]+)`),
		what:    "the ResourceQuota {quota} counts what the pod does not state",
		about:   []webhook.Object{{Kind: "ResourceQuota", Namespace: "{namespace}", Name: "{quota}"}},
		causes:  []string{"a container of the pod has no requests or limits, and no LimitRange of the namespace gives any"},
		next:    []string{"kubectl describe resourcequota {quota} -n {namespace}", "helm show values CHART"},
	},
	{
		id: "limit-range", class: Denied, // kubernetes/kubernetes plugin/pkg/admission/limitranger
		has:     []string{"usage per "},
		pattern: regexp.MustCompile(`(?P<reason>(?:maximum|minimum) [\w.-]+ usage per \w+ is .*)`),
		what:    "a LimitRange of the namespace does not allow what the object requests",
		causes:  []string{"a container requests more or less than the LimitRange allows"},
		next:    []string{"kubectl describe limitrange -n {namespace}"},
	},
}
