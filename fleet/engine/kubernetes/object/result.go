package object

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kplan-dev/kplan/fleet"
)

// Saved is what became of a run's clusters. It outlives their pods.
type Saved struct {
	// Clusters are those that are over, by name.
	Clusters map[string]Outcome `json:"clusters,omitempty"`
	// Began are the times of the rounds' beginnings, in their order.
	Began []time.Time `json:"began,omitempty"`
	// Ended is the round that ended last, State how, and At when.
	Ended int         `json:"ended,omitempty"`
	State fleet.State `json:"state,omitempty"`
	At    time.Time   `json:"at,omitzero"`
}

// Outcome is what became of a cluster in a round.
type Outcome struct {
	State   fleet.State   `json:"state"`
	Round   int           `json:"round"`
	Attempt int           `json:"attempt,omitempty"`
	At      time.Time     `json:"at"`
	Started time.Time     `json:"started,omitzero"`
	Result  *fleet.Result `json:"result,omitempty"`
}

// ResultsMap makes the ConfigMap of results.
func (s *Spec) ResultsMap(saved Saved) (*corev1.ConfigMap, error) {
	m := &corev1.ConfigMap{ObjectMeta: s.meta(s.Run.Results(), PartResults)}
	return m, saved.Write(m)
}

// short is how much is kept of a text where there is no room for all.
const short = 200

// Write puts the results into their ConfigMap. When there is no room for all that is said of
// failures, it is cut short.
func (s Saved) Write(m *corev1.ConfigMap) error {
	b, err := pack(s)
	if err == nil && len(b) > room {
		b, err = pack(s.cut())
	}
	if err != nil {
		return err
	}
	m.BinaryData = map[string][]byte{keyResults: b}
	return nil
}

func (s Saved) cut() Saved {
	all := make(map[string]Outcome, len(s.Clusters))
	for name, o := range s.Clusters {
		if o.Result != nil {
			r := *o.Result
			r.Error, r.Hint, r.Steps = cut(r.Error), "", nil
			o.Result = &r
		}
		all[name] = o
	}
	s.Clusters = all
	return s
}

func cut(text string) string {
	if len(text) > short {
		return strings.ToValidUTF8(text[:short], "") + "…"
	}
	return text
}

// ReadSaved reads the results.
func ReadSaved(m *corev1.ConfigMap) (Saved, error) {
	var s Saved
	b, err := read(m, keyResults)
	if err == nil {
		err = unpack(b, &s)
	}
	if err != nil {
		return s, fmt.Errorf("reading ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
	}
	return s, nil
}
