package explain

import (
	"regexp"

	"github.com/kplan-dev/kplan/webhook"
)

var release = []webhook.Object{{Kind: "Release", Namespace: "{namespace}", Name: "{release}"}}

// releases are Helm's own errors about its releases (helm.sh/helm/v3 pkg/action, pkg/storage;
// helm.sh/helm/v4 the same).
var releases = []rule{
	{
		id: "release-busy", class: Conflict,
		has:   []string{"another operation (install/upgrade/rollback) is in progress"},
		what:  "the last record of the release[ {release}] says that an operation on it has not ended",
		about: release,
		causes: []string{
			"an earlier install or upgrade was killed, or lost its connection, and left the release pending",
			"somebody else, or a controller, works on the release at this moment",
		},
		next: []string{
			"helm history {release} -n {namespace}", "helm rollback {release} REVISION -n {namespace}",
			"kubectl get secrets -n {namespace} -l owner=helm,name={release},status=pending-install",
		},
	},
	{
		id: "release-exists", class: Conflict,
		has:   []string{"cannot re-use a name that is still in use", "cannot reuse a name that is still in use"},
		what:  "there is a release of this name in the namespace already[: {release}]",
		about: release,
		causes: []string{
			"the release was installed before: an upgrade is meant",
			"an earlier install failed, and left its record: helm list shows it with -a only",
		},
		next: []string{"helm list -a -n {namespace}", "helm upgrade --install {release} CHART -n {namespace}"},
	},
	{
		id: "release-not-deployed", class: Missing,
		has:     []string{"has no deployed releases"},
		pattern: regexp.MustCompile(`(?:"(?P<release>[\w.-]+)"|\S+) has no deployed releases`),
		what:    "the release[ {release}] has no revision that was ever deployed, so there is nothing to upgrade",
		about:   release,
		causes: []string{
			"its first install failed or was killed",
			"it is of another namespace, or was uninstalled with its history kept",
		},
		next: []string{"helm history {release} -n {namespace}", "helm uninstall {release} -n {namespace}"},
	},
	{
		id: "release-missing", class: Missing,
		has:     []string{"release: not found", "release not loaded"},
		pattern: regexp.MustCompile(`(?i)(?:not loaded: (?P<release>[\w.-]+): )?release: not found`),
		what:    "there is no release[ {release}] of this name in the namespace",
		about:   release,
		causes:  []string{"it is in another namespace", "it was uninstalled, or its records (Secrets) were deleted"},
		next:    []string{"helm list -a -A"},
	},
	{
		id: "object-not-of-release", class: Conflict,
		has:     []string{"exists and cannot be imported into the current release", "existing resource conflict"},
		pattern: regexp.MustCompile(`(?:(?P<kind>\w+) "(?P<name>[^"]+)" in namespace "(?P<where>[^"]*)" exists and cannot be imported(?:.*release-name": must be set to "(?P<release>[^"]+)")?|existing resource conflict: namespace: (?P<where2>[\w.-]*), name: (?P<name2>[\w.-]+), existing_kind: [^,]*, Kind=(?P<kind2>\w+))`),
		what:    "{kind} {name}[ in namespace {where}] exists, and is not of this release[ ({release})]",
		about:   []webhook.Object{{Kind: "{kind}", Namespace: "{where}", Name: "{name}"}, release[0]},
		causes: []string{
			"it was made by hand, by kubectl, or by an operator at run time",
			"another release has it: its annotation meta.helm.sh/release-name says which",
			"an uninstall left it behind, as it does with CRDs and kept objects",
		},
		next: []string{
			"kubectl get {kind} {name}[ -n {where}] -o yaml", "helm upgrade --install {release} CHART -n {namespace} --take-ownership",
		},
	},
	{
		id: "release-record-too-large", class: Invalid,
		has:     []string{"sh.helm.release.v1."},
		pattern: regexp.MustCompile(`"sh\.helm\.release\.v1\.(?P<release>[\w.-]+)\.v\d+" is invalid: data: Too long`),
		what:    "the record of release {release} does not fit into a Secret (1 MiB)",
		about:   release,
		causes:  []string{"the chart carries files or CRDs that are very large, or charts within it that are not used"},
		next:    []string{"helm show all CHART"},
	},
	{
		id: "chart-values", class: Invalid,
		has:    []string{"don't meet the specifications of the schema"},
		what:   "the values do not fit the chart's schema (values.schema.json)",
		causes: []string{"a value is misspelt, missing or of another type: what follows in the error says which", "the values are for another version of the chart"},
		next:   []string{"helm show values CHART"},
	},
	{
		id: "chart-template", class: Invalid,
		has:     []string{"execution error at (", "parse error at (", "error converting yaml to json", "template: "},
		pattern: regexp.MustCompile(`(?:execution error at \(|parse error at \(|template: |YAML parse error on )(?P<template>[\w./-]+\.(?:ya?ml|tpl|txt))(?::\d+)*`),
		what:    "the chart cannot be rendered: template {template} fails; nothing was sent",
		causes: []string{
			"a value is missing or of another type than the template wants: the error says which",
			"the chart wants a newer Helm or Kubernetes",
		},
		next: []string{"helm template CHART --debug -f VALUES"},
	},
}
