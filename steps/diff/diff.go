// Package diff is what a plan would change in its clusters: for each step its
// objects, before and after, without the values of Secrets.
//
// It asks no cluster, and does not write for people: package steps finds what would
// become of objects, and commands show it.
package diff

import (
	"slices"

	"github.com/kplan-dev/kplan/plan"
)

// Diff is what a plan would change.
type Diff struct {
	Plan string `json:"plan"`
	// Changes says whether there are any; drift that is put right is one.
	Changes bool   `json:"changes"`
	Steps   []Step `json:"steps"`
}

// State says what a step would do.
type State string

// What a step can do.
const (
	// Unchanged would do nothing.
	Unchanged State = "unchanged"
	// Changes would change something.
	Changes State = "changes"
	// Fails would fail, as far as that can be told now.
	Fails State = "fails"
	// Unknown cannot be told before the run.
	Unknown State = "unknown"
	// Skipped is not part of the run.
	Skipped State = "skipped"
)

// Step is what one step would do.
type Step struct {
	Name    string    `json:"name"`
	Kind    plan.Kind `json:"kind"`
	Cluster string    `json:"cluster,omitempty"`
	State   State     `json:"state"`
	// Message says it in words.
	Message string   `json:"message,omitempty"`
	Release *Release `json:"release,omitempty"`
	Objects []Object `json:"objects,omitempty"`

	digest digest
}

// Release is what a helm step would do with its release.
type Release struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Does is install, upgrade, correct, or empty.
	Does string `json:"does,omitempty"`
	// Revision is the one that would be made, or that stays.
	Revision int `json:"revision"`
	// Chart is its name and version, and ChartBefore that of the last revision.
	Chart       string `json:"chart"`
	ChartBefore string `json:"chart_before,omitempty"`
	// Values are those that are given otherwise than before.
	Values []Field `json:"values,omitempty"`
	// Hooks would run.
	Hooks []string `json:"hooks,omitempty"`
	// Chance are objects of which parts are made anew by each rendering.
	Chance []string `json:"chance,omitempty"`
}

// Action says what would happen to an object.
type Action string

// What can happen to an object.
const (
	Create Action = "create"
	Change Action = "change"
	Delete Action = "delete"
)

// Object is what would become of an object.
type Object struct {
	// Object is Kind/namespace/name.
	Object     string `json:"object"`
	APIVersion string `json:"api_version"`
	Action     Action `json:"action"`
	// Drift says that the object is put back to what was reviewed and sent before.
	Drift  bool    `json:"drift,omitempty"`
	Fields []Field `json:"fields,omitempty"`
	// ClientSide is why the API server was not asked: what would become of the object
	// is what its manifest says.
	ClientSide string `json:"client_side,omitempty"`
	// Error is why the API server would refuse it.
	Error string `json:"error,omitempty"`

	// Before and After are the object as YAML, for people.
	Before string `json:"-"`
	After  string `json:"-"`
}

// Field is a field that would change.
type Field struct {
	Path   string `json:"path"`
	Before any    `json:"before,omitempty"`
	After  any    `json:"after,omitempty"`
	// Manager is who has set it as it is, if that was not the step.
	Manager string `json:"manager,omitempty"`
}

// Add adds a step, and keeps in mind whether it changes something.
func (d *Diff) Add(s Step) {
	d.Steps = append(d.Steps, s)
	d.Changes = d.Changes || s.State == Changes || s.State == Fails || s.State == Unknown && s.Kind != plan.KindWait && s.Kind != plan.KindWebhook
}

// Count is how many objects would be made, changed and deleted.
func (d *Diff) Count(a Action) int {
	n := 0
	for _, s := range d.Steps {
		for _, o := range s.Objects {
			if o.Action == a {
				n++
			}
		}
	}
	return n
}

// Of returns the step of a name; nil when there is none.
func (d *Diff) Of(name string) *Step {
	i := slices.IndexFunc(d.Steps, func(s Step) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &d.Steps[i]
}
