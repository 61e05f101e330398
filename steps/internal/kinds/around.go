package kinds

import (
	"slices"

	"github.com/kplan-dev/kplan/plan"
)

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
