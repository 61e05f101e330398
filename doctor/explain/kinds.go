package explain

import (
	"regexp"
	"strings"

	"github.com/kplan-dev/kplan/webhook"
)

// removed are the versions of Kubernetes' own kinds that newer ones do not serve, and since
// when (https://kubernetes.io/docs/reference/using-api/deprecation-guide/).
var removed = map[string]string{
	"extensions/v1beta1": "1.22", "apps/v1beta1": "1.16", "apps/v1beta2": "1.16", "policy/v1beta1": "1.25",
	"batch/v1beta1": "1.25", "batch/v2alpha1": "1.21", "networking.k8s.io/v1beta1": "1.22", "rbac.authorization.k8s.io/v1alpha1": "1.22",
	"rbac.authorization.k8s.io/v1beta1": "1.22", "apiextensions.k8s.io/v1beta1": "1.22", "admissionregistration.k8s.io/v1beta1": "1.22",
	"apiregistration.k8s.io/v1beta1": "1.22", "autoscaling/v2beta1": "1.25", "autoscaling/v2beta2": "1.26", "discovery.k8s.io/v1beta1": "1.25",
	"events.k8s.io/v1beta1": "1.25", "node.k8s.io/v1beta1": "1.25", "flowcontrol.apiserver.k8s.io/v1beta1": "1.26",
	"flowcontrol.apiserver.k8s.io/v1beta2": "1.29", "flowcontrol.apiserver.k8s.io/v1beta3": "1.32", "storage.k8s.io/v1beta1": "1.27",
	"scheduling.k8s.io/v1beta1": "1.22", "coordination.k8s.io/v1beta1": "1.22", "certificates.k8s.io/v1beta1": "1.22",
}

// unknownKind is an error of clients (k8s.io/apimachinery pkg/api/meta/errors.go).
var unknownKind = `no matches for kind "(?P<kind>\w+)" in version "(?P<version>[\w./-]+)"`

func wasRemoved(names map[string]string) bool {
	since := removed[names["version"]]
	names["since"] = since
	groupOf(names)
	return since != ""
}

// groupOf adds the group of the version that a text names.
func groupOf(names map[string]string) bool {
	if group, _, ok := strings.Cut(names["version"], "/"); ok {
		names["group"] = group
	}
	return true
}

// removedKinds are tried before webhook's own reading, which takes them for CRDs.
var removedKinds = []rule{
	{
		id: "kind-removed-from-record", class: Missing,
		has:     []string{"no matches for kind"},
		pattern: regexp.MustCompile(`(?:current release manifest|release manifest contains removed).*` + unknownKind), only: wasRemoved,
		what: "the record of the release that is installed has {kind} in version {version}, which Kubernetes serves no more since {since}; Helm cannot compare with it",
		causes: []string{
			"the cluster was updated before the release was, and Helm's record still has the old version, whatever the new chart has",
		},
		next: []string{"helm get manifest {release} -n {namespace}", "helm plugin install https://github.com/helm/helm-mapkubeapis", "helm mapkubeapis {release} -n {namespace}"},
	},
	{
		id: "kind-removed", class: Missing,
		has:     []string{"no matches for kind"},
		pattern: regexp.MustCompile(unknownKind), only: wasRemoved,
		what: "Kubernetes serves {kind} in version {version} no more since {since}",
		causes: []string{
			"the manifest or chart is older than the cluster: a newer version of it has a version that is served",
			"on an upgrade: Helm's record of the installed release still has the old version",
		},
		next: []string{"kubectl api-resources --api-group={group}", "helm get manifest {release} -n {namespace}"},
	},
}

// definition explains a kind that is not served.
func definition(names map[string]string) Explanation {
	r := rule{
		id: "kind-not-installed", class: Missing,
		what:  "the API server does not serve kind {kind}[ in {version}]",
		about: []webhook.Object{{Kind: "CustomResourceDefinition", Name: "{crd}"}},
		causes: []string{
			"the CRD is not installed: its operator, or the chart with the CRDs, must be installed before",
			"the CRD was installed a moment ago, and is not established yet",
			"the CRD is installed, and does not serve this version: it is older or newer than the manifest",
		},
		next: []string{"kubectl api-resources --api-group={group}", "kubectl get crds -o name", "kubectl wait --for=condition=Established crd/NAME --timeout=60s"},
	}
	if names["kind"] == "" {
		r.id = "kind-not-served"
		r.what = "the API server does not serve the resource[ {resource}]"
		r.causes = []string{
			"the CRD was installed a moment ago, and is not established yet",
			"the CRD was deleted, or no longer serves the version that the client asks for",
			"the client is of another version than the cluster",
		}
		r.next = []string{"kubectl get crd {resource} -o yaml", "kubectl wait --for=condition=Established crd/{resource} --timeout=60s"}
	}
	if g := names["group"]; g != "" && (!strings.Contains(g, ".") || strings.HasSuffix(g, ".k8s.io")) {
		r.causes = append([]string{"this version of Kubernetes does not serve it: the manifest is made for another one"}, r.causes...)
	}
	return r.explain(names, "")
}

// kinds are errors about definitions of kinds, and of objects that do not fit theirs.
var kinds = []rule{
	{
		id: "kind-not-registered", class: Invalid,
		has:     []string{"registered for"},
		pattern: regexp.MustCompile(`no kind (?:"(?P<kind>\w+)" )?is registered for (?:version "(?P<version>[\w./-]+)"|the type (?P<kind2>[\w.]+)) in scheme`), only: groupOf,
		what: "the client itself does not know kind {kind}[ of {version}]; it asked nobody",
		causes: []string{
			"the program is built without this kind: it is older than the manifest, or its scheme lacks the type",
		},
		next: []string{"kubectl api-resources --api-group={group}"},
	},
	{
		id: "crd-stored-version", class: Invalid,
		has:     []string{"status.storedversions"},
		pattern: regexp.MustCompile(`"(?P<crd>[\w.-]+)" is invalid:.*status\.storedVersions.*Invalid value: "(?P<version>\w+)": must appear in spec\.versions`),
		what:    "the CRD {crd} cannot lose version {version}: objects are still stored in it",
		about:   []webhook.Object{{Kind: "CustomResourceDefinition", Name: "{crd}"}},
		causes: []string{
			"an older version of the operator stored objects in this version, and nobody has stored them anew since",
			"an old manifest of the CRD is sent, over a newer one",
		},
		next: []string{"kubectl get crd {crd} -o jsonpath='{.status.storedVersions}'", "kubectl get {crd} -A"},
	},
	{
		id: "annotation-too-long", class: Invalid,
		has:     []string{"metadata.annotations: too long"},
		pattern: regexp.MustCompile(`(?:(?P<kind>\w+)[\w.]*[/ ]+"?(?P<name>[\w.-]+)"? is invalid: .*)?metadata\.annotations: Too long`),
		what:    "[{kind} {name} is ]too large for kubectl apply, which keeps a copy of the whole object in an annotation",
		about:   []webhook.Object{{Kind: "{kind}", Name: "{name}"}},
		causes:  []string{"the object is larger than 256 KiB, as many CRDs are: server-side apply needs no such copy"},
		next:    []string{"kubectl apply --server-side -f FILE"},
	},
	{
		id: "unknown-field", class: Invalid,
		has:     []string{"unknown field", "field not declared in schema"},
		pattern: regexp.MustCompile(`unknown field "(?P<field>[\w.-]+)"|: \.(?P<field2>[\w.-]+): field not declared in schema|unknown field|field not declared in schema`),
		what:    "the object has a field that its kind does not know[: {field}]",
		causes: []string{
			"the CRD in the cluster is older than the manifest: Helm installs the CRDs of a chart's crds/ once and never updates them",
			"the field is misspelt, or at the wrong place",
		},
		next: []string{"kubectl explain KIND.spec", "kubectl apply --server-side -f CRDS"},
	},
}
