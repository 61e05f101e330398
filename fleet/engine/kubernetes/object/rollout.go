package object

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/kplan-dev/kplan/fleet"
)

// The keys of the ConfigMaps.
const (
	keyRollout  = "rollout.json.gz"
	keyClusters = "clusters.json.gz"
	keySpec     = "spec.json.gz"
	keyBundle   = "bundle.tar.gz"
	keyControl  = "control.json"
	keyRound    = "round"
	keyResults  = "results.json.gz"
)

// Rollouts makes the ConfigMaps of the rollout: the first, which owns all else, has what it
// says but for the clusters, and there is one more for the clusters of each wave. It sets
// the digests of these.
func (s *Spec) Rollouts() (root *corev1.ConfigMap, waves []*corev1.ConfigMap, err error) {
	s.Parts = nil
	for i, w := range s.Rollout.Waves {
		m, err := s.packed(s.Run.Clusters(i), PartRollout, keyClusters, s.members(w.Name))
		if err != nil {
			return nil, nil, fmt.Errorf("wave %s: %w", w.Name, err)
		}
		m.Labels[LabelWave] = strconv.Itoa(i)
		s.Parts = append(s.Parts, Digest(m.BinaryData[keyClusters]))
		waves = append(waves, m)
	}
	head := *s.Rollout
	head.Clusters = nil
	root, err = s.packed(s.Run.Rollout(), PartRollout, keyRollout, head)
	if err != nil {
		return nil, nil, err
	}
	root.BinaryData[keySpec], err = pack(s)
	return root, waves, err
}

// Member is a cluster as its worker reads it.
type Member struct {
	fleet.Cluster
	// Own are the names that no other cluster of the rollout has.
	Own []string `json:"own,omitempty"`
}

// UnmarshalJSON reads a member; that of fleet.Cluster would leave out what is beside it.
func (m *Member) UnmarshalJSON(b []byte) error {
	var beside struct {
		Own []string `json:"own"`
	}
	if err := json.Unmarshal(b, &beside); err != nil {
		return err
	}
	m.Own = beside.Own
	return json.Unmarshal(b, &m.Cluster)
}

func (s *Spec) members(wave string) []Member {
	all, own := []Member{}, s.Rollout.Own()
	for _, c := range s.Rollout.Wave(wave) {
		all = append(all, Member{Cluster: c, Own: own[c.Name]})
	}
	return all
}

// packed makes a ConfigMap that never changes.
func (s *Spec) packed(name, part, key string, v any) (*corev1.ConfigMap, error) {
	b, err := pack(v)
	if err != nil {
		return nil, err
	}
	if len(b) > room {
		return nil, &TooLargeError{What: "what is frozen of the clusters", Size: len(b), Tip: "split the wave, or give the clusters fewer labels, annotations and values"}
	}
	return s.constant(name, part, key, b), nil
}

func (s *Spec) constant(name, part, key string, b []byte) *corev1.ConfigMap {
	immutable := true
	return &corev1.ConfigMap{ObjectMeta: s.meta(name, part), Immutable: &immutable, BinaryData: map[string][]byte{key: b}}
}

// ReadSpec reads a run's first ConfigMap: what it is made of, and the rollout without its
// clusters.
func ReadSpec(m *corev1.ConfigMap) (*Spec, error) {
	s, r := &Spec{}, &fleet.Rollout{}
	for key, v := range map[string]any{keySpec: s, keyRollout: r} {
		b, err := read(m, key)
		if err == nil {
			err = unpack(b, v)
		}
		if err != nil {
			return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
		}
	}
	s.Rollout = r
	if err := s.Run.Check(); err != nil {
		return nil, err
	}
	s.Engine.Namespace = m.Namespace
	s.Owner = ownedBy(m)
	return s, nil
}

// ReadClusters reads the clusters of a wave.
func ReadClusters(m *corev1.ConfigMap, digest string) ([]Member, error) {
	b, err := read(m, keyClusters)
	if err != nil {
		return nil, err
	}
	if err := Verify(fmt.Sprintf("ConfigMap %s/%s", m.Namespace, m.Name), b, digest); err != nil {
		return nil, err
	}
	var all []Member
	if err := unpack(b, &all); err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
	}
	return all, nil
}

// Whole puts the clusters of all waves into the rollout, and checks its digest.
func (s *Spec) Whole(waves [][]Member) error {
	s.Rollout.Clusters = nil
	for _, w := range waves {
		for _, m := range w {
			s.Rollout.Clusters = append(s.Rollout.Clusters, m.Cluster)
		}
	}
	if !s.Rollout.Sealed() {
		return errors.New("the rollout of the run is not the one that its digest says: somebody changed it")
	}
	return nil
}

// Files makes the ConfigMap of the plan's files.
func (s *Spec) Files(archive []byte) (*corev1.ConfigMap, error) {
	if len(archive) > MaxBundle {
		return nil, &TooLargeError{What: "the plan with its files", Size: len(archive), Tip: "name a repository of an OCI registry in engine.kubernetes.bundle"}
	}
	return s.constant(s.Run.Bundle(), PartBundle, keyBundle, archive), nil
}

// ReadFiles reads the archive of the plan's files.
func ReadFiles(m *corev1.ConfigMap, digest string) ([]byte, error) {
	b, err := read(m, keyBundle)
	if err == nil {
		err = Verify(fmt.Sprintf("ConfigMap %s/%s", m.Namespace, m.Name), b, digest)
	}
	return b, err
}
