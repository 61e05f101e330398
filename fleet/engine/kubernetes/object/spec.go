package object

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/fleet"
)

// Spec is what a run is made of. It is kept with the rollout, so that whoever knows the
// run's ID can go on with it.
type Spec struct {
	Run     Run            `json:"run"`
	Rollout *fleet.Rollout `json:"-"`
	// Engine says where and with what the run's pods run; its image is set.
	Engine fleet.KubernetesEngine `json:"engine"`
	// Bundle is where the plan's files are.
	Bundle Bundle `json:"bundle"`
	// Grace is how long a worker that is told to stop may take, in seconds.
	Grace int64 `json:"grace"`
	// By is who began the run, as USER@HOST, Program with which version, and Began when.
	By      string    `json:"by"`
	Program string    `json:"program,omitempty"`
	Began   time.Time `json:"began"`
	// Parallel bounds how many clusters run at once, whatever a wave allows; 0 does not.
	Parallel int `json:"parallel,omitempty"`
	// LockWait is how long a worker waits for another run of the plan on its cluster, in
	// seconds, and Unrecorded leaves out the record of the run there.
	LockWait   int64 `json:"lock_wait,omitempty"`
	Unrecorded bool  `json:"unrecorded,omitempty"`
	// Parts are the digests of the ConfigMaps with the clusters, by wave.
	Parts []string `json:"parts"`

	// Owner is the ConfigMap that all others go with; nil before it was made.
	Owner *metav1.OwnerReference `json:"-"`
}

// Bundle says where the plan's files are.
type Bundle struct {
	// Digest is that of the archive, as sha256:HEX.
	Digest string `json:"digest"`
	// Repository is the OCI repository that has it, as HOST/PATH; "" when a ConfigMap does.
	Repository string `json:"repository,omitempty"`
	PlainHTTP  bool   `json:"plain_http,omitempty"`
}

// The bounds of a worker's grace.
const (
	minGrace = time.Minute
	maxGrace = 15 * time.Minute
)

// Grace is how many seconds a worker may take to end, of a plan whose steps may take up to
// longest. It is what requests in flight may take.
func Grace(longest time.Duration) int64 {
	return int64(min(max(longest, minGrace), maxGrace) / time.Second)
}

// meta is that of an object of the run.
func (s *Spec) meta(name, part string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: name, Namespace: s.Engine.Namespace, Labels: s.labels(part)}
	if s.Owner != nil {
		m.OwnerReferences = []metav1.OwnerReference{*s.Owner}
	}
	return m
}

// keep is how long Jobs are kept after their end.
func (s *Spec) keep() time.Duration {
	if s.Engine.Keep == nil {
		return defaultKeep
	}
	return s.Engine.Keep.D()
}

const defaultKeep = 168 * time.Hour
