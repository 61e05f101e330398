package explain

import (
	"regexp"

	"github.com/kplan-dev/kplan/webhook"
)

// access are errors about who asks, and what they may.
var access = []rule{
	{
		id: "forbidden", class: Forbidden, // k8s.io/apiserver pkg/endpoints/handlers/responsewriters
		has:     []string{" cannot "},
		pattern: regexp.MustCompile(`User "(?:system:serviceaccount:(?P<namespace>[\w.-]+):(?P<account>[\w.-]+)|(?P<user>[^"]+))" cannot (?P<verb>\w+) (?:resource "(?P<resource>[\w./-]+)"(?: in API group "(?P<group>[\w.-]*)")?|(?P<resource2>[\w./-]+))(?: in the namespace "(?P<where>[\w.-]+)")?`),
		what:    "[ServiceAccount {namespace}/{account}][user {user}] may not {verb} {resource}[.{group}][ in namespace {where}]",
		about:   []webhook.Object{{Kind: "ServiceAccount", Namespace: "{namespace}", Name: "{account}"}, {Kind: "User", Name: "{user}"}},
		causes: []string{
			"no Role or ClusterRole that is bound to it has this right: the chart's RBAC is off, or older than the program",
			"the binding is for another ServiceAccount or namespace",
			"the right is given within a namespace, and asked for in the whole cluster",
		},
		next: []string{"kubectl auth can-i {verb} {resource}[.{group}] --as=[system:serviceaccount:{namespace}:{account}][{user}][ -n {where}]", "kubectl get rolebindings,clusterrolebindings -A -o wide"},
	},
	{
		id: "rights-escalation", class: Forbidden,
		has:    []string{"attempt to grant extra privileges", "attempting to grant rbac permissions"},
		what:   "a role cannot be made by somebody who has not all the rights in it",
		causes: []string{"who installs is no administrator of the cluster", "the role has wide rights (*), which only an administrator may give"},
		next:   []string{"kubectl auth can-i --list"},
	},
	{
		id: "owner-finalizers", class: Forbidden,
		has:    []string{"cannot set blockownerdeletion"},
		what:   "an object with an owner cannot be made by somebody who may not set that owner's finalizers",
		causes: []string{"the operator's role lacks the right to update finalizers of the owner's kind: OpenShift asks for it"},
		next:   []string{"kubectl auth can-i update RESOURCE/finalizers --as=system:serviceaccount:NAMESPACE:NAME"},
	},
	{
		id: "service-account-missing", class: Missing,
		has:     []string{"serviceaccount \""},
		pattern: regexp.MustCompile(`error looking up service account (?:(?P<namespace>[\w.-]+)/)?(?P<account>[\w.-]+): serviceaccount`),
		what:    "the pod's ServiceAccount [{namespace}/]{account} does not exist",
		about:   []webhook.Object{{Kind: "ServiceAccount", Namespace: "{namespace}", Name: "{account}"}},
		causes: []string{
			"it comes with the same install, and later than the pod: of a hook, or of a dry run",
			"the chart does not make it (serviceAccount.create), and nobody else has",
		},
		next: []string{"kubectl get serviceaccounts -n {namespace}"},
	},
	{
		id: "not-logged-in", class: Forbidden,
		has: []string{
			"you must be logged in to the server", "asked for the client to provide credentials", "getting credentials: exec", "unauthorized",
			"invalid bearer token",
		},
		pattern: regexp.MustCompile(`(?i)logged in to the server|client to provide credentials|getting credentials: exec|(?:^|error: )unauthorized$|invalid bearer token`),
		what:    "the API server does not know who asks",
		causes: []string{
			"the login has expired: a token, a client certificate, or what a program of the kubeconfig gets",
			"the kubeconfig is of another cluster, or one that was made anew",
		},
		next: []string{"kubectl auth whoami", "kubectl config view --minify"},
	},
}
