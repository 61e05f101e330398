package explain

import (
	"regexp"

	"github.com/kplan-dev/kplan/webhook"
)

// deletions are errors about what is being deleted, and of namespaces.
var deletions = []rule{
	{
		id: "namespace-terminating", class: Deleting,
		has:     []string{"because it is being terminated", "namespaceterminating"},
		pattern: regexp.MustCompile(`in namespace (?P<namespace>[\w.-]+) because it is being terminated|because it is being terminated|NamespaceTerminating`),
		what:    "namespace {namespace} is being deleted, and takes nothing new until it is gone",
		about:   []webhook.Object{{Kind: "Namespace", Name: "{namespace}"}},
		causes: []string{
			"an uninstall has just deleted it: it is gone in moments",
			"something in it has a finalizer whose controller is gone, or a webhook denies the removal",
		},
		next: []string{"kubectl get namespace {namespace} -o jsonpath='{.status.conditions}'", "kubectl wait --for=delete namespace/{namespace} --timeout=60s"},
	},
	{
		id: "finalizers-remain", class: Deleting,
		has:     []string{"has finalizers remaining", "some resources are remaining", "somefinalizersremain", "someresourcesremain", "instancedeletioninprogress"},
		pattern: regexp.MustCompile(`(?:(?:SomeResourcesRemain\s+)?[Ss]ome resources are remaining: (?P<resource>[\w.-]+) has|(?:SomeFinalizersRemain\s+[\w ]*)?finalizers remaining: (?P<finalizer>[\w./-]+) in|finalizers remaining|SomeFinalizersRemain|SomeResourcesRemain|InstanceDeletionInProgress)`),
		what:    "a deletion waits for objects[ ({resource})] that have finalizers[ ({finalizer})]",
		causes: []string{
			"the controller that removes the finalizer is gone, or was deleted first",
			"it runs, and cannot do what it must before; its log says why",
			"a webhook that is called for the update, and does not answer, keeps the finalizer from being removed",
		},
		next: []string{"kubectl get {resource} -n {namespace} -o yaml", "kplan webhooks --failing"},
	},
	{
		id: "object-deleting", class: Deleting,
		has:     []string{"object is being deleted", "custom resource definition is terminating"},
		pattern: regexp.MustCompile(`object is being deleted: (?P<resource>[\w.-]+) "(?P<name>[^"]+)"|object is being deleted|custom resource definition is terminating`),
		what:    "[{resource} {name}: ]an object of this name, or its CRD, is still being deleted",
		about:   []webhook.Object{{Kind: "{resource}", Name: "{name}"}},
		causes:  []string{"it was deleted a moment ago, and is gone soon", "it has a finalizer whose controller is gone"},
		next:    []string{"kubectl get {resource} {name} -o jsonpath='{.metadata.deletionTimestamp} {.metadata.finalizers}'"},
	},
	{
		id: "namespace-missing", class: Missing,
		has:     []string{"namespaces \"", "namespace \""},
		pattern: regexp.MustCompile(`namespaces? "(?P<namespace>[\w.-]+)" not found`),
		what:    "namespace {namespace} does not exist",
		about:   []webhook.Object{{Kind: "Namespace", Name: "{namespace}"}},
		causes:  []string{"nothing has made it yet: Helm does with --create-namespace only", "its name is misspelt, or it is of another cluster"},
		next:    []string{"kubectl create namespace {namespace}"},
	},
}
