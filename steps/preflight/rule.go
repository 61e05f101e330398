package preflight

import (
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/finding"
)

// The rules of findings. They do not change from one version to the next.
const (
	Kind      = "cluster-kind"
	Namespace = "cluster-namespace"
	Refused   = "cluster-refused"
	Release   = "cluster-release"
	Owner     = "cluster-owner"
	Chart     = "cluster-chart"
	// Unchecked is of what the cluster cannot tell yet. It is no fault.
	Unchecked = "cluster-unchecked"
)

// Rules are all rules.
var Rules = []finding.Rule{
	{ID: Kind, Severity: finding.Error, Summary: "The cluster does not know a kind, and no step before brings it."},
	{ID: Namespace, Severity: finding.Error, Summary: "A namespace does not exist, and no step before makes it."},
	{ID: Refused, Severity: finding.Error, Summary: "The API server refuses an object."},
	{ID: Release, Severity: finding.Error, Summary: "A release of this name is of another chart."},
	{ID: Owner, Severity: finding.Error, Summary: "An object of a chart exists, and is not the release's."},
	{ID: Chart, Severity: finding.Error, Summary: "A chart cannot be had, or not be rendered for the cluster."},
	{ID: Unchecked, Severity: finding.Note, Summary: "The cluster cannot tell yet."},
}

// Find returns what breaks a rule at a field of a step.
func Find(rule string, s plan.Step, hint, message string, fields ...any) finding.Finding {
	at := s.Locate(fields...)
	f := finding.Finding{Pos: at.Pos, Path: at.Path, Excerpt: at.Excerpt, Rule: rule, Severity: finding.Error, Message: message, Hint: hint, Step: s.Name}
	if rule == Unchecked {
		f.Severity = finding.Note
	}
	return f
}
