package explain

import (
	"regexp"

	"github.com/kplan-dev/kplan/webhook"
)

// conflicts are errors of objects that exist already (k8s.io/apimachinery pkg/api/errors, pkg/api/validation).
var conflicts = []rule{
	{
		id: "apply-conflict", class: Conflict,
		has:     []string{"apply failed with", "conflict occurred while applying"},
		pattern: regexp.MustCompile(`(?:conflict occurred while applying object (?:(?P<namespace>[\w.-]*)/)?(?P<name>[\w.-]+)[^:]*: .*)?(?:[Aa]pply failed with \d+ conflicts?: conflicts? with "(?P<manager>[^"]+)"|conflict occurred while applying)`),
		what:    "server-side apply[ of {name}] would change fields that belong to[ {manager},] another field manager",
		about:   []webhook.Object{{Kind: "FieldManager", Name: "{manager}"}},
		causes: []string{
			"the object was made or changed by another tool: kubectl, Helm, a controller or an autoscaler",
			"the same tool applied before in another way: client-side, or under another name",
		},
		next: []string{
			"kubectl get KIND NAME -n NAMESPACE -o yaml --show-managed-fields", "kubectl apply --server-side --force-conflicts -f FILE",
			"helm upgrade {release} CHART --force-conflicts",
		},
	},
	{
		id: "object-modified", class: Race,
		has:     []string{"the object has been modified"},
		pattern: regexp.MustCompile(`(?:on (?P<resource>[\w.-]+) "(?P<name>[^"]+)": )?the object has been modified`),
		what:    "[{resource} {name}: ]somebody changed the object between reading and writing it; nothing was written",
		about:   []webhook.Object{{Kind: "{resource}", Name: "{name}"}},
		causes: []string{
			"a controller works on the object at the same time: in its log this is no error, it tries again",
			"two tools or two replicas change the same object",
		},
		next: []string{"kubectl get {resource} {name} -o yaml --show-managed-fields"},
	},
	{
		id: "field-immutable", class: Invalid,
		has:     []string{"field is immutable", "updates to statefulset spec", "is immutable after creation", "cannot change roleref", "updates to parameters are forbidden"},
		pattern: regexp.MustCompile(`(?:(?P<kind>[A-Z]\w+)(?:\.[\w.]+)? "(?P<name>[^"]+)" is invalid: )?(?:(?P<reason>[\w.]+(?:\[\d+\])?): (?:Invalid value|Forbidden).*)?(?:[Ff]ield is immutable|updates to statefulset spec|is immutable after creation|cannot change roleRef|updates to parameters are forbidden)`),
		what:    "[{kind} {name} has ]a field that cannot be changed once the object exists",
		about:   []webhook.Object{{Kind: "{kind}", Name: "{name}"}},
		causes: []string{
			"the new version of the chart has another selector, volume claim or pod template: of Jobs no part of the template may change",
			"a value was changed that only counts when the object is made, such as the size of a StatefulSet's volumes",
		},
		next: []string{
			"kubectl diff -f FILE", "kubectl delete {kind} {name} -n NAMESPACE --cascade=orphan", "helm upgrade {release} CHART",
		},
	},
	{
		id: "already-exists", class: Conflict,
		has:     []string{"already exists"},
		pattern: regexp.MustCompile(`(?P<resource>[a-z][\w.-]*) "(?P<name>[^"]+)" already exists`),
		what:    "{resource} {name} exists already",
		about:   []webhook.Object{{Kind: "{resource}", Name: "{name}"}},
		causes: []string{
			"it was made before, by another tool, release or attempt",
			"it is a hook of the chart that was left behind: its hook-delete-policy keeps it after a failure",
		},
		next: []string{"kubectl get {resource} {name}[ -n {namespace}] -o yaml"},
	},
	{
		id: "object-invalid", class: Invalid,
		has:     []string{"is invalid: "},
		pattern: regexp.MustCompile(`(?:(?P<kind>[A-Z]\w+)(?:\.[\w.]+)? "(?P<name>[^"]+)"|[Tt]he (?P<kind2>\w+) "(?P<name2>[^"]+)") is invalid: (?P<reason>.*)`),
		what:    "{kind} {name} does not keep the rules of its kind",
		about:   []webhook.Object{{Kind: "{kind}", Name: "{name}"}},
		causes:  []string{"a field has a value that is not allowed, or lacks one: the reason says which", "the CRD in the cluster is of another version than the manifest"},
		next:    []string{"kubectl explain {kind}", "kubectl apply --dry-run=server -f FILE"},
	},
}
