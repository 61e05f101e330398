package inquiry

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/preflight"
)

// Group is what several clusters have to say alike.
type Group struct {
	fleet.Cause
	// Severity is error when it keeps the plan from its work.
	Severity finding.Severity `json:"severity"`
	Hint     string           `json:"hint,omitempty"`
	// Clusters are their names, sorted.
	Clusters []string `json:"clusters"`
}

// GroupsOf gathers what clusters say, errors first and then the largest groups. What the
// clusters could not tell comes last. Own are the names that each cluster alone has.
func GroupsOf(answers []Answer, own map[string][]string) []Group {
	type key struct {
		fleet.Cause
		severity finding.Severity
	}
	var groups []Group
	at := map[key]int{}
	add := func(c fleet.Cluster, class fleet.Class, step, text, hint string, severity finding.Severity) {
		names := append([]string{c.Name, c.Namespace, c.Server}, own[c.Name]...)
		cause := *fleet.NewCause(class, step, text, names...)
		k := key{cause, severity}
		i, known := at[k]
		if !known {
			i = len(groups)
			at[k] = i
			groups = append(groups, Group{Cause: cause, Severity: severity, Hint: hint})
		}
		if g := &groups[i]; len(g.Clusters) == 0 || g.Clusters[len(g.Clusters)-1] != c.Name {
			g.Clusters = append(g.Clusters, c.Name)
		}
	}
	for _, a := range answers {
		if a.Err != nil {
			text, hint := told(a.Err)
			add(a.Cluster, a.Class, "", text, hint, finding.Error)
		}
		for _, f := range a.Findings {
			add(a.Cluster, classOf(f), f.Step, f.Message, f.Hint, f.Severity)
		}
	}
	for i := range groups {
		slices.Sort(groups[i].Clusters)
	}
	slices.SortStableFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(rank(a.Severity), rank(b.Severity)), cmp.Compare(len(b.Clusters), len(a.Clusters)), strings.Compare(a.Step, b.Step), strings.Compare(a.Text, b.Text))
	})
	return groups
}

func rank(s finding.Severity) int {
	return slices.Index([]finding.Severity{finding.Error, finding.Warning, finding.Note}, s)
}

// classOf is the kind of failure that a finding foretells.
func classOf(f finding.Finding) fleet.Class {
	switch f.Rule {
	case preflight.Rights:
		return fleet.Forbidden
	case preflight.Reach:
		return fleet.Unreachable
	case preflight.Chart:
		return fleet.BadPlan
	}
	return fleet.StepFailed
}

// told is an error on one line, and its hint.
func told(err error) (text, hint string) {
	faults, ok := errors.AsType[document.Diagnostics](err)
	if !ok {
		return err.Error(), runner.HintOf(err)
	}
	var texts []string
	for _, d := range faults[:min(len(faults), 3)] {
		texts = append(texts, strings.TrimPrefix(d.Pos.String()+": "+d.Message, ": "))
	}
	return strings.Join(texts, "; "), faults[0].Hint
}
