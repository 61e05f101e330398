// Package fleet is the model of one plan that runs on many clusters: the fleet file, the
// rollout that is frozen of it, the events of a run and their fold, and what of a rollout
// may start next.
//
// It does not read files (package load below it does), finds no clusters (package
// inventory), and runs nothing (the packages below engine): all of it is values.
package fleet

import (
	"github.com/kplan-dev/kplan/plan"
)

// Kind is the only kind that a fleet file may declare; its apiVersion is plan.APIVersion.
const Kind = "Fleet"

// Fleet is one fleet file: a plan, the clusters that it runs on, and in which order.
type Fleet struct {
	// APIVersion is always "kplan.dev/v1alpha1".
	APIVersion string `json:"apiVersion"`
	// Kind is always "Fleet".
	Kind     string        `json:"kind"`
	Metadata plan.Metadata `json:"metadata"`
	Plan     PlanRef       `json:"plan"`
	// Clusters are those that inventories and the engine are asked on, by name. One that is
	// not named is that of the command line.
	Clusters map[string]plan.Cluster `json:"clusters,omitempty"`
	// Inventory says where the clusters of the fleet are found. A cluster that two entries
	// find is a fault.
	Inventory []Inventory `json:"inventory"`
	// Vars are values of the plan's variables, for each cluster: ${{ cluster.labels.region }}.
	// They win over what the plan says of env, secret, config_map and default; --var-file and
	// --set win over them.
	Vars map[string]any `json:"vars,omitempty"`
	// Waves run one after another. Each cluster is in exactly one.
	Waves []Wave `json:"waves"`
	// Budget stops the whole run by what clusters fail of.
	Budget Budget `json:"budget,omitzero"`
	// Engine runs the plan (default: local).
	Engine Engine `json:"engine,omitzero"`

	// File is the path that the fleet was read from; paths in it are relative to its folder.
	File string `json:"-"`
	// Dir is the absolute folder of File.
	Dir string `json:"-"`
}

// PlanRef says which plan runs, and on which of its clusters.
type PlanRef struct {
	// File is the path of the plan, relative to the fleet file.
	File string `json:"file"`
	// Cluster is that of the plan's clusters which each cluster of the fleet takes the place
	// of (default: the one of steps that name none).
	Cluster string `json:"cluster,omitempty"`
}

// Inventory finds clusters. Exactly one of its sources is set.
type Inventory struct {
	// CAPI are the Clusters of Cluster API.
	CAPI *ObjectSource `json:"capi,omitempty"`
	// K0rdent are the ClusterDeployments of k0rdent.
	K0rdent *ObjectSource `json:"k0rdent,omitempty"`
	// Sveltos are SveltosClusters.
	Sveltos *ObjectSource `json:"sveltos,omitempty"`
	// ArgoCD are the Secrets by which Argo CD knows its clusters.
	ArgoCD *ObjectSource `json:"argocd,omitempty"`
	// Contexts are those of a kubeconfig.
	Contexts *ContextSource `json:"contexts,omitempty"`
	// List has clusters in the fleet file itself.
	List []Listed `json:"list,omitempty"`
	// Select is a CEL expression over cluster (name, namespace, labels, annotations) of the
	// type boolean: only clusters of which it is true are taken (default: all).
	Select string `json:"select,omitempty"`
}

// ObjectSource finds clusters by objects of a management cluster.
type ObjectSource struct {
	// Cluster is one of the fleet's clusters (default: that of the command line).
	Cluster string `json:"cluster,omitempty"`
	// Namespace is the objects' (default: all namespaces; of argocd: argocd).
	Namespace string `json:"namespace,omitempty"`
	// Selector is a label selector, as kubectl's -l takes it (default: all).
	Selector string `json:"selector,omitempty"`
}

// ContextSource finds clusters by the contexts of a kubeconfig.
type ContextSource struct {
	// Kubeconfig is the path of the kubeconfig, relative to the fleet file (default: that of
	// the command line).
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Names are names of contexts, or patterns of them with * and ? (default: all).
	Names []string `json:"names,omitempty"`
}

// Listed is a cluster that the fleet file lists.
type Listed struct {
	// Name is the cluster's in the fleet.
	Name string `json:"name"`
	// Context is a context of Kubeconfig (default: its current one), which is the path of a
	// kubeconfig, relative to the fleet file (default: that of the command line).
	Context    string `json:"context,omitempty"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// KubeconfigSecret is a key of a Secret with a kubeconfig, in one of the fleet's
	// clusters.
	KubeconfigSecret *plan.KeyRef `json:"kubeconfig_secret,omitempty"`
	// Namespace is that of objects which name none (default: that of the context).
	Namespace string `json:"namespace,omitempty"`
	// Labels and Annotations are what expressions see of it.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// What holds where a wave does not say.
const (
	// DefaultParallel is how many clusters of a wave run at once.
	DefaultParallel = 10
)

// Wave is a set of clusters that run side by side.
type Wave struct {
	// Name names the wave; a DNS label.
	Name string `json:"name"`
	// Select is a CEL expression over cluster of the type boolean: the wave has the clusters
	// of which it is true. Without it, which only the last wave may be, the wave has all
	// that no other wave has.
	Select string `json:"select,omitempty"`
	// Parallel is how many clusters run at once (default 10).
	Parallel int `json:"parallel,omitempty"`
	// MaxFailures is how many clusters of the wave may fail, a number or a share of the
	// wave as "2%", rounded down (default 0). Once more have failed nothing new starts.
	MaxFailures *Limit `json:"max_failures,omitempty"`
	// Soak is how long the next wave waits after this one ended (default: not at all).
	Soak *plan.Duration `json:"soak,omitempty"`
	// Approve lets the wave wait until somebody approves it: kplan fleet approve.
	Approve bool `json:"approve,omitempty"`
}

// Budget says how many clusters of the whole fleet may fail of one kind of cause before
// nothing new starts. A cluster whose requests are held for a webhook has not failed.
type Budget struct {
	// SameCause is how many may fail of one cause, a number or a share (default: as many as
	// there are).
	SameCause *Limit `json:"same_cause,omitempty"`
	// Unreachable is how many may be out of reach, a number or a share. Those count here and
	// not among the failures of their wave (default: they count as other failures do).
	Unreachable *Limit `json:"unreachable,omitempty"`
}

// Engine runs the plan on the clusters. At most one of its fields is set.
type Engine struct {
	// Local runs all in one process, that of the command.
	Local *LocalEngine `json:"local,omitempty"`
	// Kubernetes runs an Indexed Job for each wave in a management cluster.
	Kubernetes *KubernetesEngine `json:"kubernetes,omitempty"`
}

// LocalEngine has no options.
type LocalEngine struct{}

// KubernetesEngine says where the Jobs of a run are.
type KubernetesEngine struct {
	// Cluster is one of the fleet's clusters (default: that of the command line).
	Cluster string `json:"cluster,omitempty"`
	// Namespace is where Jobs and what they read are made. It must exist.
	Namespace string `json:"namespace"`
	// Image is the container image of kplan (default: that of this version).
	Image string `json:"image,omitempty"`
	// Bundle is a repository of an OCI registry, such as oci://registry.example.com/fleets,
	// for plans too large for a ConfigMap, whose files together may have 700 KiB.
	Bundle string `json:"bundle,omitempty"`
	// ServiceAccount is the workers' (default kplan-fleet-worker), DriverServiceAccount the
	// driver's (default kplan-fleet-driver). kplan fleet rbac prints both.
	ServiceAccount       string `json:"service_account,omitempty"`
	DriverServiceAccount string `json:"driver_service_account,omitempty"`
	// ImagePullSecrets are names of Secrets in Namespace.
	ImagePullSecrets []string `json:"image_pull_secrets,omitempty"`
	// Resources are what a worker asks for (default: 100m of CPU and 128Mi of memory, and
	// no limit).
	Resources *Resources `json:"resources,omitempty"`
	// NodeSelector and Tolerations are those of the pods.
	NodeSelector map[string]string `json:"node_selector,omitempty"`
	Tolerations  []map[string]any  `json:"tolerations,omitempty"`
	// Keep is how long Jobs and results are kept after the run's end (default 168h).
	Keep *plan.Duration `json:"keep,omitempty"`
}

// Resources are quantities of Kubernetes by resource, such as cpu: 100m.
type Resources struct {
	// Requests are what a pod is given in any case, Limits what it may take at most.
	Requests map[string]string `json:"requests,omitempty"`
	Limits   map[string]string `json:"limits,omitempty"`
}
