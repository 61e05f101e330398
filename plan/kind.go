package plan

import "cmp"

// Kind is the kind of a step.
type Kind string

// The kinds of steps.
const (
	KindHelm    Kind = "helm"
	KindApply   Kind = "apply"
	KindWait    Kind = "wait"
	KindWebhook Kind = "webhook"
	KindDelete  Kind = "delete"
	KindInclude Kind = "include"
)

// Kind returns the kind that is set; "" when none is.
func (s Step) Kind() Kind {
	switch {
	case s.Helm != nil:
		return KindHelm
	case s.Apply != nil:
		return KindApply
	case s.Wait != nil:
		return KindWait
	case s.Webhook != nil:
		return KindWebhook
	case s.Delete != nil:
		return KindDelete
	case s.Include != nil:
		return KindInclude
	}
	return ""
}

// Helm installs a release, or upgrades it when it is there.
type Helm struct {
	// Release is the release's name (default: the step's name).
	Release string `json:"release,omitempty"`
	// Chart is oci://HOST/PATH, the path of a folder or .tgz (starting with ./, ../ or /),
	// the name of a chart in Repo, or REPOSITORY/CHART with the name of one of the plan's
	// repositories or of helm repo add.
	Chart string `json:"chart"`
	// Repo is the address of a classic chart repository, or the name of one of the
	// plan's repositories.
	Repo string `json:"repo,omitempty"`
	// Version is the chart's version, or a constraint on it.
	Version string `json:"version,omitempty"`
	// PlainHTTP talks to the registry without TLS.
	PlainHTTP bool `json:"plain_http,omitempty"`
	// Verify wants the chart to be signed, and says by whom.
	Verify *Verify `json:"verify,omitempty"`
	// Namespace is the release's namespace (default: that of the kubeconfig context).
	Namespace string `json:"namespace,omitempty"`
	// CreateNamespace makes the namespace when it is missing.
	CreateNamespace bool `json:"create_namespace,omitempty"`
	// ValuesFiles are merged in order, later ones win; paths are relative to the plan. A
	// file may be encrypted with SOPS. https://…, with #sha256:DIGITS, is fetched.
	ValuesFiles []string `json:"values_files,omitempty"`
	// Evaluate evaluates the expressions in ValuesFiles, as those of the plan; without it
	// they are sent as they are.
	Evaluate bool `json:"evaluate,omitempty"`
	// Values are merged last.
	Values map[string]any `json:"values,omitempty"`
	// SetFile puts the texts of files into the values, by the names that helm's own
	// --set-file takes, such as tls.ca: after Values. Paths are relative to the plan.
	SetFile map[string]string `json:"set_file,omitempty"`
	// SkipCRDs is the old spelling of "crds: skip".
	SkipCRDs bool `json:"skip_crds,omitempty"`
	// CRDs says what happens to the chart's crds/ folder (default create).
	CRDs CRDPolicy `json:"crds,omitempty"`
	// Wait says what the step waits for (default ready).
	Wait WaitFor `json:"wait,omitempty"`
	// OnFailure says what happens to a release that failed (default keep).
	OnFailure OnFailure `json:"on_failure,omitempty"`
	// Drift says what happens to fields of the release's objects that others changed
	// since (default correct).
	Drift Drift `json:"drift,omitempty"`

	// ResetValues takes the values of the plan only, and those of the chart for all
	// else; that is the default. At most one of it, ReuseValues and
	// ResetThenReuseValues is true.
	ResetValues bool `json:"reset_values,omitempty"`
	// ReuseValues merges the plan's values over all of the last revision, those of its
	// chart too: what is new in this chart's values.yaml is not seen.
	ReuseValues bool `json:"reuse_values,omitempty"`
	// ResetThenReuseValues merges the plan's values over those that the last revision
	// was given, and these over the chart's.
	ResetThenReuseValues bool `json:"reset_then_reuse_values,omitempty"`
	// MaxHistory is how many revisions are kept, 0 for all (default 10).
	MaxHistory *int `json:"max_history,omitempty"`
	// Description is what "helm history" says of the revision (default "Install
	// complete" or "Upgrade complete").
	Description string `json:"description,omitempty"`
	// Labels are those of the release's record, for "helm list --selector".
	Labels map[string]string `json:"labels,omitempty"`
	// DisableHooks runs none of the chart's hooks.
	DisableHooks bool `json:"disable_hooks,omitempty"`
	// TakeOwnership makes objects the release's that are there already, whoever made them:
	// kubectl, Argo CD, another release.
	TakeOwnership bool `json:"take_ownership,omitempty"`
	// WaitForJobs lets "wait: ready" wait for Jobs too.
	WaitForJobs bool `json:"wait_for_jobs,omitempty"`
	// KubeVersion is what the chart is told of the cluster's version (default: as the
	// cluster says).
	KubeVersion string `json:"kube_version,omitempty"`
	// APIVersions are told to the chart besides those that the cluster serves, such as
	// monitoring.coreos.com/v1 and monitoring.coreos.com/v1/ServiceMonitor.
	APIVersions []string `json:"api_versions,omitempty"`
	// Engine is the version of Helm that makes the release (default helm3).
	Engine HelmEngine `json:"engine,omitempty"`
	// ServerSide says who works out what changes of an object, as helm upgrade
	// --server-side does: the API server or the client (default auto).
	ServerSide ServerSide `json:"server_side,omitempty"`
	// ForceConflicts takes fields from other managers that want other values, when
	// objects are applied by the server.
	ForceConflicts bool `json:"force_conflicts,omitempty"`
}

// DefaultMaxHistory is how many revisions of a release are kept where a step does not
// say, as in Helm.
const DefaultMaxHistory = 10

// Kept is how many revisions of the release are kept; 0 for all.
func (h Helm) Kept() int {
	if h.MaxHistory == nil {
		return DefaultMaxHistory
	}
	return *h.MaxHistory
}

// CRDPolicy says what happens to the CustomResourceDefinitions of a chart's crds/
// folder, and of its subcharts'.
type CRDPolicy string

// What can happen to them.
const (
	// SkipCRDs leaves them out.
	SkipCRDs CRDPolicy = "skip"
	// CreateCRDs creates those that are missing when the release is installed, and never
	// changes one, as Helm does.
	CreateCRDs CRDPolicy = "create"
	// UpgradeCRDs also brings those that are there to what the chart has, on installs and
	// upgrades, by server-side apply.
	UpgradeCRDs CRDPolicy = "upgrade"
)

// CRDPolicy is what the step says of the chart's crds/ folder.
func (h Helm) CRDPolicy() CRDPolicy {
	switch {
	case h.SkipCRDs:
		return SkipCRDs
	case h.CRDs == "":
		return CreateCRDs
	}
	return h.CRDs
}

// HelmEngine is a version of Helm.
type HelmEngine string

// The versions of Helm.
const (
	// Helm3 is Helm 3, which applies objects by the client.
	Helm3 HelmEngine = "helm3"
	// Helm4 is Helm 4, which applies objects of new releases by the server.
	Helm4 HelmEngine = "helm4"
)

// ServerSide says whether objects are applied by the server.
type ServerSide string

// By whom objects can be applied.
const (
	// ServerSideAuto applies those of a release as they were before, and those of a new
	// one as its engine does.
	ServerSideAuto ServerSide = "auto"
	// ServerSideTrue applies them by the server.
	ServerSideTrue ServerSide = "true"
	// ServerSideFalse applies them by the client.
	ServerSideFalse ServerSide = "false"
)

// HelmDefaults hold for every helm step that does not say otherwise.
type HelmDefaults struct {
	// Engine is the version of Helm that makes releases (default helm3).
	Engine HelmEngine `json:"engine,omitempty"`
	// ServerSide says who works out what changes of an object (default auto).
	ServerSide ServerSide `json:"server_side,omitempty"`
}

// Or returns d with what it does not say as in outer.
func (d HelmDefaults) Or(outer HelmDefaults) HelmDefaults {
	return HelmDefaults{cmp.Or(d.Engine, outer.Engine), cmp.Or(d.ServerSide, outer.ServerSide)}
}

// WaitFor says what a step waits for once its objects were admitted.
type WaitFor string

// What a step can wait for.
const (
	// WaitNone waits for nothing.
	WaitNone WaitFor = "none"
	// WaitHooks waits for the chart's hooks only; helm steps only.
	WaitHooks WaitFor = "hooks"
	// WaitReady waits until every object is ready.
	WaitReady WaitFor = "ready"
)

// OnFailure says what happens to a release whose install or upgrade failed.
type OnFailure string

// What can happen to a failed release.
const (
	// KeepRelease leaves it, so that the next run goes on from there.
	KeepRelease OnFailure = "keep"
	// RollbackRelease goes back to the last revision that was deployed.
	RollbackRelease OnFailure = "rollback"
	// UninstallRelease removes a release that was never deployed.
	UninstallRelease OnFailure = "uninstall"
)

// Drift says what happens to a release that nobody changed the inputs of, and whose
// objects are not as they were rendered any more.
type Drift string

// What can happen to drift.
const (
	// CorrectDrift puts fields right, but for those that controllers own.
	CorrectDrift Drift = "correct"
	// ReportDrift only tells it.
	ReportDrift Drift = "report"
	// IgnoreDrift does not look at fields.
	IgnoreDrift Drift = "ignore"
)

// Apply sends objects by server-side apply with field manager "kplan".
type Apply struct {
	// Files are paths or globs relative to the plan; a file may hold many documents, and
	// be encrypted with SOPS. https://…, with #sha256:DIGITS, and oci://HOST/PATH:TAG, an
	// artifact as Flux pushes them, with //PATH for some of its files, are fetched; - is
	// standard input.
	Files []string `json:"files,omitempty"`
	// Kustomize is the folder of an overlay, or that of one in an artifact:
	// oci://HOST/PATH:TAG//PATH.
	Kustomize string `json:"kustomize,omitempty"`
	// Evaluate evaluates the expressions in Files, as those of the plan; without it they
	// are sent as they are.
	Evaluate bool `json:"evaluate,omitempty"`
	// PlainHTTP talks to registries without TLS.
	PlainHTTP bool `json:"plain_http,omitempty"`
	// Objects are given in the plan itself.
	Objects []map[string]any `json:"objects,omitempty"`
	// Namespace is that of objects which name none (default: that of the kubeconfig context).
	Namespace string `json:"namespace,omitempty"`
	// ForceConflicts takes over fields that another field manager owns.
	ForceConflicts bool `json:"force_conflicts,omitempty"`
	// OnImmutable says what happens when a change is to a field that cannot be changed
	// (default fail).
	OnImmutable OnImmutable `json:"on_immutable,omitempty"`
	// Prune deletes what the step applied before and its manifests no longer have, in
	// the way of kubectl's apply sets.
	Prune bool `json:"prune,omitempty"`
	// Wait is none or ready (default none).
	Wait WaitFor `json:"wait,omitempty"`
}

// OnImmutable says what happens to an object with a change that it cannot take.
type OnImmutable string

// What can happen to such an object.
const (
	// FailImmutable fails the step.
	FailImmutable OnImmutable = "fail"
	// RecreateImmutable deletes the object and makes it anew.
	RecreateImmutable OnImmutable = "recreate"
)

// Wait waits until objects are as described, in the syntax of kubectl wait.
type Wait struct {
	// Resource is TYPE/NAME, or TYPE together with Selector.
	Resource string `json:"resource"`
	// Namespace is the objects' (default: that of the kubeconfig context).
	Namespace string `json:"namespace,omitempty"`
	// Selector picks objects by label; all of them must satisfy For, and there must be one.
	Selector string `json:"selector,omitempty"`
	// For is condition=NAME[=VALUE], jsonpath={EXPR}[=VALUE], ready, create or delete. ready
	// is kplan's own: what a step with wait: ready takes for that.
	For string `json:"for"`
}

// Webhook waits until admission webhooks, and conversion webhooks of custom
// resources, answer through the API server. Exactly one of Release,
// Configuration, Service, Selector and Files says which.
type Webhook struct {
	// Release is a helm step's release: all webhooks of it are meant.
	Release string `json:"release,omitempty"`
	// Configuration is the name of a Validating- or MutatingWebhookConfiguration.
	Configuration string `json:"configuration,omitempty"`
	// Service is NAMESPACE/NAME: all webhooks that are called there are meant.
	Service string `json:"service,omitempty"`
	// Selector picks webhooks by the labels of what configures them.
	Selector string `json:"selector,omitempty"`
	// Files are paths or globs relative to the plan: all webhooks are meant that
	// would be called for the objects in them.
	Files []string `json:"files,omitempty"`
	// All means every webhook of the cluster whose failure fails requests. No plan
	// can say so: kplan wait webhook does.
	All bool `json:"-"`

	// Namespace is the release's namespace (default: that of the helm step with
	// this release), and that of objects in Files and Canary which name none
	// (default: that of the kubeconfig context).
	Namespace string `json:"namespace,omitempty"`
	// Canary are dry runs whose outcome proves that the webhooks work.
	Canary *Canary `json:"canary,omitempty"`
	// Stable is how many consecutive answers are required, each over a connection
	// of its own (default 1).
	Stable int `json:"stable,omitempty"`
}

// Canary says how dry runs of objects must end. Paths are as in apply.files.
type Canary struct {
	// Accept are files of objects that must be admitted.
	Accept []string `json:"accept,omitempty"`
	// Deny are files of objects that must be denied, by one of the webhooks.
	Deny []string `json:"deny,omitempty"`
	// Mutate are objects that must be changed.
	Mutate []Mutation `json:"mutate,omitempty"`
}

// Mutation says how a mutating webhook must change an object.
type Mutation struct {
	// File is the path of the object's file.
	File string `json:"file"`
	// Expect is a CEL expression over object, as it was admitted, and original,
	// as it is in the file. It must be true of the one and not of the other.
	Expect string `json:"expect"`
}

// Delete removes objects, or a release, and waits until they are gone. What is not
// there is gone already. Exactly one of Release, Resource, and Files, Kustomize or
// Objects says what goes.
type Delete struct {
	// Files are as those of apply: the objects in them go.
	Files []string `json:"files,omitempty"`
	// Kustomize is as that of apply: the objects of the overlay go.
	Kustomize string `json:"kustomize,omitempty"`
	// Evaluate and PlainHTTP are as those of apply.
	Evaluate  bool `json:"evaluate,omitempty"`
	PlainHTTP bool `json:"plain_http,omitempty"`
	// Objects are given in the plan itself; apiVersion, kind and metadata are enough.
	Objects []map[string]any `json:"objects,omitempty"`
	// Resource is TYPE/NAME, or TYPE together with Selector, as for kubectl delete.
	Resource string `json:"resource,omitempty"`
	// Selector picks objects by label.
	Selector string `json:"selector,omitempty"`
	// Release is the name of a release of Helm, which is uninstalled.
	Release string `json:"release,omitempty"`
	// Namespace is that of the release, and of objects which name none (default: that
	// of the kubeconfig context).
	Namespace string `json:"namespace,omitempty"`
	// DeleteCRDs lets the CustomResourceDefinitions of the release go too, and with
	// them every custom resource of their kinds.
	DeleteCRDs bool `json:"delete_crds,omitempty"`
	// Wait waits until all is gone (default true).
	Wait *bool `json:"wait,omitempty"`

	// Beside are the releases, as NAMESPACE/NAME, that go in the same run, and do not
	// count as others' that have a definition too. No plan can say so: kplan down does.
	Beside []string `json:"-"`
	// Leftovers are namespaces which go only if nothing is left in them
	// that somebody else put there. No plan can say so: kplan down does.
	Leftovers []Leftover `json:"-"`
}

// Leftover is a namespace that a run made.
type Leftover struct {
	Namespace string
	// Programs are those that the run's releases ran: what they alone have put into
	// the namespace goes with it.
	Programs []string
}
