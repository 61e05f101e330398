// Package status is how the steps of a plan stand in their clusters: what is there,
// what is ready, and what was changed by others.
//
// It asks no cluster, and does not write for people: package steps looks, and commands
// show it.
package status

import (
	"time"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// Health is how a step stands.
type Health string

// How a step can stand.
const (
	// Healthy: all is there and ready, or what the step waits for is so.
	Healthy Health = "healthy"
	// Unhealthy: something is missing, not ready or failed.
	Unhealthy Health = "unhealthy"
	// Absent: nothing of the step is there.
	Absent Health = "absent"
	// Unknown: it could not be looked at.
	Unknown Health = "unknown"
	// Skipped: the plan leaves the step out.
	Skipped Health = "skipped"
)

// Step is how one step stands.
type Step struct {
	Name    string    `json:"name"`
	Kind    plan.Kind `json:"kind"`
	Cluster string    `json:"cluster,omitempty"`
	Health  Health    `json:"health"`
	// Message says why, or what the step waits for.
	Message string   `json:"message,omitempty"`
	Release *Release `json:"release,omitempty"`
	// Objects is how many objects the step has, and Ready how many of them are.
	Objects int `json:"objects,omitempty"`
	Ready   int `json:"ready,omitempty"`
	// Troubles are the objects that are not ready.
	Troubles []Trouble `json:"troubles,omitempty"`
	// Drift are the objects that others changed, and Gone are among the troubles.
	Drift []Drift `json:"drift,omitempty"`

	// Webhooks are those that the step brings or waits for.
	Webhooks []survey.Status `json:"-"`
}

// Release is a helm step's.
type Release struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Revision  int       `json:"revision"`
	Status    string    `json:"status"`
	Chart     string    `json:"chart"`
	Updated   time.Time `json:"updated"`
}

// Trouble is an object that is not ready.
type Trouble struct {
	// Object is Kind/namespace/name.
	Object string `json:"object"`
	// State is missing, waiting or failed.
	State string `json:"state"`
	// Reason says why.
	Reason string `json:"reason,omitempty"`
}

// Drift is an object that others changed.
type Drift struct {
	Object string   `json:"object"`
	Fields []string `json:"fields"`
}

// Missing is the state of an object that is not there.
const Missing = "missing"

// Judge says how a step with objects stands, by what is known of them.
func (s *Step) Judge() {
	missing := 0
	for _, t := range s.Troubles {
		if t.State == Missing {
			missing++
		}
	}
	switch {
	case s.Objects > 0 && missing == s.Objects && s.Release == nil:
		s.Health = Absent
	case len(s.Troubles) > 0:
		s.Health = Unhealthy
	default:
		s.Health = Healthy
	}
}

// AllHealthy reports whether every step that is not left out is healthy.
func AllHealthy(steps []Step) bool {
	for _, s := range steps {
		if s.Health == Unhealthy || s.Health == Absent || s.Health == Unknown {
			return false
		}
	}
	return true
}
