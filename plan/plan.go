// Package plan is the model of an install plan: its types, the graph of its steps,
// which of them are picked, and what holds where a plan says nothing.
//
// It knows neither how a plan is read, see package load, nor how a step is executed,
// see package runner for the loop and package steps for the kinds of steps.
package plan

import (
	"cmp"

	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/redact"
)

// APIVersion and PlanKind are the only values that a plan file may declare.
const (
	APIVersion = "kplan.dev/v1alpha1"
	PlanKind   = "Plan"
)

// Plan is one plan file, read, with its variables resolved.
type Plan struct {
	// APIVersion is always "kplan.dev/v1alpha1".
	APIVersion string `json:"apiVersion"`
	// Kind is always "Plan".
	Kind     string   `json:"kind"`
	Metadata Metadata `json:"metadata"`
	// Vars are the inputs of the plan, by name; read them as ${{ vars.NAME }}.
	Vars map[string]Var `json:"vars,omitempty"`
	// Clusters are those that steps work on, by name. A step that names none works
	// on the cluster of defaults.cluster, else on that of the command line.
	Clusters map[string]Cluster `json:"clusters,omitempty"`
	// Repositories are where charts and manifests come from, and the logins for it, by
	// name.
	Repositories map[string]Repository `json:"repositories,omitempty"`
	Defaults     Defaults              `json:"defaults,omitzero"`
	// Ready says when objects are ready, by KIND.GROUP, such as Certificate.cert-manager.io;
	// kplan knows it of the usual kinds. It holds for included plans too.
	Ready map[string]Readiness `json:"ready,omitempty"`
	// State says where the clusters keep what is known of the plan's runs. That of an
	// included plan is not looked at.
	State State `json:"state,omitzero"`
	// Steps run in the order that their needs allow, independent ones side by side.
	Steps []Step `json:"steps"`
	// Finally are steps that run once all others have ended, whatever became of them.
	Finally []Step `json:"finally,omitempty"`

	// File is the path that the plan was read from; paths in steps are relative to its folder.
	File string `json:"-"`
	// Dir is the absolute folder of File.
	Dir string `json:"-"`

	// Texts are the files that the plan was read from: its own first, then those of
	// the plans that it includes. Var files are not among them.
	Texts []*document.Source `json:"-"`
	// Variables are those that the plan declares, sorted by name.
	Variables []Variable `json:"-"`
	// Sensitive is what must not be shown of a plan that was read: whoever learns the
	// value of a sensitive variable or output later adds it.
	Sensitive *redact.Set `json:"-"`
}

// Readiness says when the objects of a kind are ready. In a plan it is the expression
// itself, or a mapping of ready, failed and message. All are CEL over object, as the
// cluster has it.
type Readiness struct {
	// Ready is true of an object that is ready. One whose status is of an older
	// generation is not asked about.
	Ready string `json:"ready"`
	// Failed is true of an object that will not become ready unless somebody changes
	// something. It has to stay so for half a minute.
	Failed string `json:"failed,omitempty"`
	// Message is the text that says why an object is not ready, or has failed (default:
	// what its conditions say).
	Message string `json:"message,omitempty"`
}

// Metadata names the plan.
type Metadata struct {
	// Name identifies the plan in output; a DNS label.
	Name string `json:"name"`
	// Description is shown to people.
	Description string `json:"description,omitempty"`
}

// Var declares one variable. Its value is the first that is given of: --set, a
// --var-file, Env, Secret or ConfigMap, Default.
type Var struct {
	// Default is the value when none is given, and when Secret or ConfigMap has no
	// such key; a variable without any of them must be set.
	Default any `json:"default,omitempty"`
	// Description is shown to people.
	Description string `json:"description,omitempty"`
	// Type is what the value must be (default: as the default is, else as the allowed
	// values are, else any).
	Type VarType `json:"type,omitempty"`
	// Allowed are the only values that the variable takes.
	Allowed []any `json:"allowed,omitempty"`
	// Validation are conditions that the value meets beyond its type.
	Validation []Validation `json:"validation,omitempty"`
	// Required wants a value from outside of the plan, and one that is not empty;
	// there is no default.
	Required bool `json:"required,omitempty"`
	// Env is the environment variable that gives the value when it is set.
	Env string `json:"env,omitempty"`
	// Secret and ConfigMap give the value from a cluster, when a step that needs
	// it starts. There is at most one of them.
	Secret    *KeyRef `json:"secret,omitempty"`
	ConfigMap *KeyRef `json:"config_map,omitempty"`
	// Sensitive keeps the value out of everything that is shown or written down
	// (default: true with Secret).
	Sensitive *bool `json:"sensitive,omitempty"`
}

// Validation is a condition that a variable's value meets.
type Validation struct {
	// Condition is a CEL expression over value, of the type boolean, with the functions
	// of other expressions of plans.
	Condition string `json:"condition"`
	// Message says what is wanted of the value, for people.
	Message string `json:"message"`
}

// VarType says what values a variable takes.
type VarType string

// The types of variables.
const (
	VarString  VarType = "string"
	VarNumber  VarType = "number"
	VarInteger VarType = "integer"
	VarBoolean VarType = "boolean"
	VarList    VarType = "list"
	VarMap     VarType = "map"
	VarAny     VarType = "any"
)

// KeyRef is a key of a Secret or ConfigMap in a cluster.
type KeyRef struct {
	// Cluster is one of the plan's clusters (default: that of defaults.cluster,
	// else that of the command line).
	Cluster string `json:"cluster,omitempty"`
	// Namespace is the object's (default: that of the kubeconfig context).
	Namespace string `json:"namespace,omitempty"`
	// Name is the object's name.
	Name string `json:"name"`
	// Key is the key of the object's data (default: value, of a kubeconfig).
	Key string `json:"key,omitempty"`
}

// Cluster says how a cluster is reached. At most one of Kubeconfig and
// KubeconfigSecret is set; without either the kubeconfig of the command line is
// meant.
type Cluster struct {
	// Context is a context of the kubeconfig (default: its current one).
	Context string `json:"context,omitempty"`
	// Kubeconfig is the path of a kubeconfig file, relative to the plan.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// KubeconfigSecret is a key of a Secret with a kubeconfig, in another cluster.
	// It is read when a step first needs it, and again when the cluster no longer
	// takes its credentials.
	KubeconfigSecret *KeyRef `json:"kubeconfig_secret,omitempty"`
	// Namespace is that of objects which name none (default: that of the context).
	Namespace string `json:"namespace,omitempty"`
}

// DefaultStateNamespace is where the lock and the records of a plan are kept when
// it does not say.
const DefaultStateNamespace = "kplan-system"

// State says where the clusters keep what is known of a plan's runs.
type State struct {
	// Namespace has the plan's lock and the records of its runs, in each cluster that
	// it writes to (default kplan-system). It is made if it is missing.
	Namespace string `json:"namespace,omitempty"`
}

// StateNamespace is where the plan's lock and records are.
func (p *Plan) StateNamespace() string { return cmp.Or(p.State.Namespace, DefaultStateNamespace) }

// Defaults hold for every step that does not say otherwise.
type Defaults struct {
	// Timeout bounds each step, all its attempts together (default 10m).
	Timeout *Duration `json:"timeout,omitempty"`
	Retry   *Retry    `json:"retry,omitempty"`
	// Webhooks says how requests that a webhook cannot judge yet are held.
	Webhooks *Webhooks `json:"webhooks,omitempty"`
	// FailFast fails a step before its timeout when what it waits for cannot get on
	// (default true).
	FailFast *bool `json:"fail_fast,omitempty"`
	// Cluster is one of the plan's clusters (default: that of the command line).
	Cluster string `json:"cluster,omitempty"`
	// Helm holds for helm steps.
	Helm HelmDefaults `json:"helm,omitzero"`
}

// Webhooks says how requests that an admission webhook cannot judge yet are held.
type Webhooks struct {
	// Hold turns holding on or off (default true).
	Hold *bool `json:"hold,omitempty"`
	// HoldTimeout bounds how long one request is held (default 5m).
	HoldTimeout *Duration `json:"hold_timeout,omitempty"`
	// MisconfiguredTimeout bounds how long one request is held for a webhook
	// that is misconfigured rather than late (default 30s).
	MisconfiguredTimeout *Duration `json:"misconfigured_timeout,omitempty"`
}

// Retry says how often a failed step is tried, and how far apart.
type Retry struct {
	// InstallRetries counts the attempts in all: 3 means at most three (default 1).
	InstallRetries int `json:"install_retries,omitempty"`
	// RetryDelaySeconds is the longest wait between two attempts, in seconds; 0 is none (default 10).
	RetryDelaySeconds *float64 `json:"retry_delay_seconds,omitempty"`
	// Multiplier makes each delay that much longer than the one before (default 1).
	Multiplier float64 `json:"multiplier,omitempty"`
	// MaxDelaySeconds bounds the delays that Multiplier makes (default 300).
	MaxDelaySeconds float64 `json:"max_delay_seconds,omitempty"`
	// Jitter shortens each delay by a random part of up to this share, from 0 to
	// 1 (default 0).
	Jitter *float64 `json:"jitter,omitempty"`
	// On are the kinds of failure after which there is another attempt (default any).
	On []RetryOn `json:"on,omitempty"`
}

// RetryOn is a kind of failure. One that another attempt cannot mend, such as a
// denial or a chart with a fault, is of none.
type RetryOn string

// The kinds of failures.
const (
	// RetryWebhook: a webhook did not answer within its hold's bound.
	RetryWebhook RetryOn = "webhook"
	// RetryNetwork: a server, registry or repository could not be reached.
	RetryNetwork RetryOn = "network"
	// RetryConflict: somebody else changed the object, or owns a field of it.
	RetryConflict RetryOn = "conflict"
	// RetryTimeout: something did not come in time.
	RetryTimeout RetryOn = "timeout"
	// RetryNotReady: an object failed, or a hook's Job did.
	RetryNotReady RetryOn = "not_ready"
	// RetryAny: any failure.
	RetryAny RetryOn = "any"
)

// Step is one node of the plan's graph. Exactly one of Helm, Apply, Wait, Webhook,
// Delete and Include is set; Load puts the steps of the other plan in place of Include,
// and one step for each item in place of one with ForEach.
type Step struct {
	// Name identifies the step in the plan; a DNS label. That of a step for one
	// item is NAME[ITEM], that of a step of an included plan INCLUDE/NAME.
	Name string `json:"name"`
	// Description is shown to people.
	Description string `json:"description,omitempty"`
	// Needs are the steps that must have ended before this one starts.
	Needs []Need `json:"needs,omitempty"`
	// When says whether the step runs: true or false, or an expression of that type
	// (default true). A step that does not run is skipped, and those that need it may run.
	When any `json:"when,omitempty"`
	// ForEach makes a step for each item of a list or map.
	ForEach *ForEach `json:"for_each,omitempty"`
	// ConcurrencyGroup is the name of a group of steps, of the whole plan and whatever
	// their clusters, of which no two run at the same time: the next one, in plan order,
	// starts when the one before has ended, all its attempts together.
	ConcurrencyGroup string `json:"concurrency_group,omitempty"`
	// Cluster is one of the plan's clusters (default: defaults.cluster).
	Cluster string `json:"cluster,omitempty"`
	// Tags are names by which steps are picked with --tags and --skip-tags.
	Tags []string `json:"tags,omitempty"`
	// Timeout bounds the step, all its attempts together (default defaults.timeout).
	Timeout  *Duration `json:"timeout,omitempty"`
	Retry    *Retry    `json:"retry,omitempty"`
	Webhooks *Webhooks `json:"webhooks,omitempty"`
	// FailFast fails the step before its timeout when what it waits for cannot get on:
	// an image that cannot be pulled, a program that crashes, a quota, no node or no
	// volume. Without it such troubles are waited out (default defaults.fail_fast).
	FailFast *bool `json:"fail_fast,omitempty"`
	// Outputs are values that later steps read as ${{ steps.STEP.outputs.NAME }}.
	Outputs map[string]Output `json:"outputs,omitempty"`

	Helm    *Helm    `json:"helm,omitempty"`
	Apply   *Apply   `json:"apply,omitempty"`
	Wait    *Wait    `json:"wait,omitempty"`
	Webhook *Webhook `json:"webhook,omitempty"`
	Delete  *Delete  `json:"delete,omitempty"`
	Include *Include `json:"include,omitempty"`

	// Dir is the absolute folder that paths of the step are relative to.
	Dir string `json:"-"`
	// Group is the name of the step in the plan when it has one for each item, ""
	// otherwise; Parallel is how many of the group run at once, 0 for all.
	Group    string `json:"-"`
	Parallel int    `json:"-"`
	// Ready says when objects are ready, see Plan.Ready.
	Ready map[string]Readiness `json:"-"`
	// Evaluated are the texts of files whose expressions were evaluated, by absolute path,
	// lines where they were. What is known only when the step starts is null in them.
	Evaluated map[string][]byte `json:"-"`
	// Last says that the step is one of the plan's finally.
	Last bool `json:"-"`
	// Skip says why the step is not run, such as that it was not picked or that its
	// when is false; "" for one that is.
	Skip string `json:"-"`

	// Pending is what is left to be read of a deferred step; nil for one whose fields
	// are all known.
	Pending *Pending `json:"-"`
	// Origin is where the step was read. Steps made of one by for_each share it. It is
	// zero for a step that was not read from a file.
	Origin document.Origin `json:"-"`
}

// Locate returns where a field of the step stands. See document.Source.Place.
func (s Step) Locate(fields ...any) document.Place { return s.Origin.Place(fields...) }

// Need is a step that must have ended, and how. In a plan it is the step's name,
// or a mapping of step and on.
type Need struct {
	// Step is the name of a step, of a group of them, or of an include.
	Step string `json:"step"`
	// On is how it must have ended (default success).
	On NeedOn `json:"on,omitempty"`
}

// NeedOn says how a step that another one needs must have ended.
type NeedOn string

// How a needed step can have to end.
const (
	// NeedSuccess: it succeeded, or was skipped. If not, the step is blocked.
	NeedSuccess NeedOn = "success"
	// NeedFailure: it failed or was blocked. Of several such needs one is enough; if
	// none is met, the step is skipped.
	NeedFailure NeedOn = "failure"
	// NeedAlways: in any way.
	NeedAlways NeedOn = "always"
)

// Needs are needs of steps that must have succeeded.
func Needs(names ...string) []Need {
	needs := make([]Need, len(names))
	for i, n := range names {
		needs[i] = Need{Step: n}
	}
	return needs
}

// NeedNames are the names of the steps that the step needs, in the plan's order.
func (s Step) NeedNames() []string {
	var names []string
	for _, n := range s.Needs {
		names = append(names, n.Step)
	}
	return names
}

// ForEach says for which items there is a step. In a plan it is the list or map
// itself, or a mapping of in and parallel.
type ForEach struct {
	// In is a list or map; the step reads each.key and each.value. Items of a list
	// that are scalars are their own keys, others have their index.
	In any `json:"in"`
	// Parallel is how many of the steps run at once (default: all).
	Parallel int `json:"parallel,omitempty"`
}

// Output is a value that is read from an object of the cluster once the step has
// succeeded. There is one of JSONPath and CEL.
type Output struct {
	// Resource is TYPE/NAME.
	Resource string `json:"resource"`
	// Namespace is the object's (default: that of the step).
	Namespace string `json:"namespace,omitempty"`
	// JSONPath is a path as kubectl -o jsonpath takes it, such as
	// {.status.loadBalancer.ingress[0].ip}.
	JSONPath string `json:"jsonpath,omitempty"`
	// CEL is an expression over object.
	CEL string `json:"cel,omitempty"`
	// Sensitive keeps the value out of everything that is shown (default: true
	// for a Secret).
	Sensitive *bool `json:"sensitive,omitempty"`
}

// Include runs the steps of another plan.
type Include struct {
	// Plan is the path of the other plan's file.
	Plan string `json:"plan"`
	// Vars are values of the other plan's variables.
	Vars map[string]any `json:"vars,omitempty"`
	// Clusters says which cluster of this plan each cluster of the other one is;
	// those that are left out are as the other plan says.
	Clusters map[string]string `json:"clusters,omitempty"`
}
