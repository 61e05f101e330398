// Package kinds knows where kinds come from that a cluster does not serve yet:
// from definitions among the objects of a plan's steps, or from a program that
// a step starts, which may define kinds when it runs.
//
// It reads objects. It asks no cluster and waits for nothing.
package kinds

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kplan-dev/kplan/plan"
)

// Prospect says whether a kind that the API server does not serve may come yet.
// The zero value says that it will not.
type Prospect struct {
	Comes bool
	// Step is the step of the plan that brings the kind, or may; Beside says that
	// it does not come before the step that asks.
	Step   string
	Beside bool
	// Definition is the name of the kind's CustomResourceDefinition; empty when
	// nobody knows it beforehand.
	Definition string
	// Why says for people what brings the kind, or what keeps it from coming.
	Why string
}

// Step is what the objects of one step mean for kinds.
type Step struct {
	name        string
	definitions map[schema.GroupKind]Definition
	// programs says that the step may start programs.
	programs bool
}

// Of reads the objects of a step.
func Of(name string, objects []*unstructured.Unstructured) *Step {
	s := &Step{name: name, definitions: map[schema.GroupKind]Definition{}}
	for _, o := range objects {
		if gk := o.GroupVersionKind().GroupKind(); gk.Group != Definitions.Group {
			s.programs = s.programs || starts(gk)
		} else if d := DefinitionOf(o); len(d.Versions) > 0 {
			s.definitions[d.GroupKind] = d
		}
	}
	return s
}

// Unknown is a step whose objects cannot be known.
func Unknown(name string) *Step { return &Step{name: name, programs: true} }

// starts reports whether an object of the kind makes a program run. A custom
// resource may: it can stand for an application that its operator installs.
func starts(gk schema.GroupKind) bool {
	switch gk.Group {
	case "":
		return gk.Kind == "Pod" || gk.Kind == "ReplicationController"
	case "apps", "batch":
		return true
	}
	return Custom(gk.Group)
}

// Defines reports whether a definition of the kind, in any version, is among the
// step's objects.
func (s *Step) Defines(gk schema.GroupKind) bool { return s.definitions[gk].Name != "" }

// Neighbours are the steps of a plan as one of them sees them.
type Neighbours struct {
	// Own is the step itself; nil when nothing is known of it.
	Own *Step
	// Before are those that it needs, directly or not. Beside are those that may
	// run at the same time.
	Before, Beside []*Step
}

// Find returns whether a kind that the cluster does not serve may come yet, and how.
func (n Neighbours) Find(gvk schema.GroupVersionKind) Prospect {
	gk, other := gvk.GroupKind(), ""
	for i, s := range slices.Concat(n.Before, n.Beside) {
		d := s.definitions[gk]
		switch {
		case slices.Contains(d.Versions, gvk.Version):
			return Prospect{
				Comes: true, Step: s.name, Beside: i >= len(n.Before), Definition: d.Name, Why: fmt.Sprintf("step %q brings it", s.name),
			}
		case d.Name != "":
			other = fmt.Sprintf("step %q brings it in %s only", s.name, strings.Join(d.Versions, ", "))
		}
	}
	switch {
	case other != "":
		return Prospect{Why: other}
	case !Custom(gvk.Group):
		return Prospect{}
	case n.Own != nil && n.Own.Defines(gk):
		return Prospect{Why: "the step's own chart defines it, and Helm has to know the kinds of all templates before it sends any"}
	}
	return n.Run()
}

// Run returns the prospect that a step before defines any kind when it runs.
func (n Neighbours) Run() Prospect {
	for _, s := range n.Before {
		if s.programs {
			return Prospect{
				Comes: true, Step: s.name, Why: fmt.Sprintf("no manifest of the plan brings it, step %q may when it runs", s.name),
			}
		}
	}
	return Prospect{}
}

// Around are the steps that work on the cluster of a step before it, and
// those that may at the same time.
func Around(p *plan.Plan, step plan.Step) (before, beside []plan.Step) {
	graph := p.Graph()
	ancestors, descendants := graph.Ancestors(step.Name), graph.Descendants(step.Name)
	for _, other := range p.Steps {
		switch {
		case !Runs(other), other.Name == step.Name, !p.SameCluster(p.StepCluster(step), p.StepCluster(other)):
		case slices.Contains(ancestors, other.Name), step.Last && !other.Last:
			before = append(before, other)
		case step.Last == other.Last && !slices.Contains(descendants, other.Name):
			beside = append(beside, other)
		}
	}
	return before, beside
}

// Runs reports whether a step may run.
func Runs(s plan.Step) bool { return s.Skip == "" && s.When != false }
