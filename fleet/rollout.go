package fleet

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/kplan-dev/kplan/plan"
)

// RolloutVersion is the version of a rollout's form.
const RolloutVersion = 1

// Rollout is what a run of a fleet does, frozen: the clusters with their values in their
// waves, and which files the plan is. Whoever runs it runs that or nothing.
type Rollout struct {
	Version int `json:"version"`
	// Fleet is the fleet's name, Plan the plan's, and Target the plan's cluster that each
	// cluster takes the place of; "" is that of steps which name none.
	Fleet  string `json:"fleet"`
	Plan   string `json:"plan"`
	Target string `json:"target,omitempty"`
	// Bundle is the digest of the plan's files, as sha256:HEX.
	Bundle string `json:"bundle"`
	// Waves are in their order, and Clusters in that of the waves and by name within one.
	Waves    []WaveInfo `json:"waves"`
	Clusters []Cluster  `json:"clusters"`
	Limits   Limits     `json:"limits"`
	// Engine is local or kubernetes. It is not part of the digest: the same rollout runs on
	// both.
	Engine string `json:"engine"`
	// Digest tells the rollout from all others, as sha256:HEX.
	Digest string `json:"digest"`
}

// WaveInfo is a wave as it is frozen.
type WaveInfo struct {
	// Name is the wave's.
	Name string `json:"name"`
	// Parallel is how many clusters run at once, MaxFailures how many may fail.
	Parallel    int `json:"parallel"`
	MaxFailures int `json:"max_failures"`
	// SoakSeconds is how long the next wave waits after this one.
	SoakSeconds float64 `json:"soak_seconds,omitempty"`
	// Approve says that the wave waits until somebody approves it.
	Approve bool `json:"approve,omitempty"`
	// Clusters counts those of the wave.
	Clusters int `json:"clusters"`
}

// Limits is a Budget in numbers of clusters; nil is no limit.
type Limits struct {
	// SameCause may fail of one cause, and Unreachable may be out of reach.
	SameCause   *int `json:"same_cause,omitempty"`
	Unreachable *int `json:"unreachable,omitempty"`
}

// Cluster is one cluster of a fleet.
type Cluster struct {
	// Name tells it from the others of the fleet: NAMESPACE/NAME of an object, else its name.
	Name string `json:"name"`
	// Namespace is that of the object that stands for it; "" if there is none.
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Source says where it was found, and Access how it is reached.
	Source Source `json:"source"`
	Access Access `json:"access"`
	// Server is the address of its API server, and CA the SHA-256 of the certificates that
	// are trusted there, in hex: a kubeconfig that says something else later is refused.
	// Both are empty when nobody asked yet.
	Server string `json:"server,omitempty"`
	CA     string `json:"ca,omitempty"`
	// Paused says that its owner wants nobody to work on it.
	Paused bool `json:"paused,omitempty"`
	// Wave is the name of its wave, and Vars are its values of the plan's variables.
	Wave string         `json:"wave"`
	Vars map[string]any `json:"vars,omitempty"`
}

// Source is where a cluster was found.
type Source struct {
	// Kind is capi, k0rdent, sveltos, argocd, contexts or list.
	Kind string `json:"kind"`
	// Cluster is the fleet's name of the management cluster; "" is that of the command line.
	Cluster string `json:"cluster,omitempty"`
	// Object is the object that stands for it, as Kind/namespace/name; "" if there is none.
	Object string `json:"object,omitempty"`
}

// Access is how a cluster is reached: by the kubeconfig in a Secret, by Argo CD's Secret, or
// by a context of a kubeconfig on this machine.
type Access struct {
	// Secret has the kubeconfig; its Cluster is the fleet's name of the management cluster.
	Secret *plan.KeyRef `json:"secret,omitempty"`
	// ArgoCD says that Secret is one of Argo CD's, which has address and credentials apart.
	ArgoCD bool `json:"argocd,omitempty"`
	// Kubeconfig is the absolute path of a kubeconfig ("" is that of the command line), and
	// Context its context.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	Context    string `json:"context,omitempty"`
	// DefaultNamespace is that of objects which name none (default: the context's).
	DefaultNamespace string `json:"default_namespace,omitempty"`
}

// UnmarshalJSON reads what is written as JSON. Whole numbers among the values of variables
// stay whole, as they are when they come from a file.
func (c *Cluster) UnmarshalJSON(b []byte) error {
	type plain Cluster
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode((*plain)(c)); err != nil {
		return err
	}
	for name, v := range c.Vars {
		c.Vars[name] = numbered(v)
	}
	return nil
}

// numbered puts numbers in the place of their texts.
func numbered(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64() // JSON has no others, but for those that are too large
		return f
	case map[string]any:
		for k, x := range v {
			v[k] = numbered(x)
		}
	case []any:
		for i, x := range v {
			v[i] = numbered(x)
		}
	}
	return v
}

// Sort puts waves' clusters into their order, and Seal gives the rollout its digest.
func (r *Rollout) Sort() {
	place := map[string]int{}
	for i, w := range r.Waves {
		place[w.Name] = i
	}
	slices.SortFunc(r.Clusters, func(a, b Cluster) int {
		return cmp.Or(cmp.Compare(place[a.Wave], place[b.Wave]), cmp.Compare(a.Name, b.Name))
	})
}

// Seal sorts the rollout and sets its digest.
func (r *Rollout) Seal() {
	r.Sort()
	r.Digest = r.digest()
}

// Sealed reports whether the digest is that of what the rollout says.
func (r *Rollout) Sealed() bool { return r.Digest != "" && r.Digest == r.digest() }

func (r *Rollout) digest() string {
	sum := *r
	sum.Digest, sum.Engine = "", ""
	b, err := json.Marshal(sum)
	if err != nil { // of values that came from YAML or JSON there is none
		panic(err)
	}
	h := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(h[:])
}

// Cluster is the cluster of that name; nil when there is none.
func (r *Rollout) Cluster(name string) *Cluster {
	for i := range r.Clusters {
		if r.Clusters[i].Name == name {
			return &r.Clusters[i]
		}
	}
	return nil
}

// Wave returns the clusters of a wave, in their order.
func (r *Rollout) Wave(name string) []Cluster {
	var all []Cluster
	for _, c := range r.Clusters {
		if c.Wave == name {
			all = append(all, c)
		}
	}
	return all
}
