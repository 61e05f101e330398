package analyze

import (
	"context"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/internal/charts"
)

// Values tells which values of helm steps the schemas of their charts refuse, each where
// the plan or a file of values gives it. Only charts that are folders or archives are
// looked at: nothing is fetched, and no cluster is asked. Steps whose values are known
// only when they start are left out, and what else is wrong with a chart.
func Values(ctx context.Context, p *plan.Plan, from *source.Store) []finding.Finding {
	var found []finding.Finding
	seen := map[document.Pos]bool{} // steps of one for_each have the same
	for _, s := range p.Steps {
		if s.Helm == nil || !s.Helm.IsLocal() || len(s.Deferred()) > 0 || s.Skip != "" {
			continue
		}
		c, err := charts.New(s, metav1.NamespaceDefault, from)
		if err != nil {
			continue
		}
		ch, err := c.Source.Load(ctx)
		if err != nil {
			continue
		}
		if _, err = c.DryRelease(ctx, charts.Capabilities{}, false); err == nil {
			continue
		}
		for _, r := range c.Refused(ch, charts.WithoutValues(err.Error())) {
			if !seen[r.Pos] {
				found = append(found, refusal(s, r))
			}
			seen[r.Pos] = true
		}
	}
	return found
}

// secretLine is a line that is rather not shown.
var secretLine = regexp.MustCompile(`(?i)pass|pwd|secret|token|credential|cookie|key|://[^/]*@`)

func refusal(s plan.Step, r charts.Refused) finding.Finding {
	f := finding.Finding{
		Pos: r.Pos, Severity: finding.Error, Rule: string(document.CodeInvalid), Path: r.Path, Step: s.Name,
		Message: "the chart " + r.Chart + " does not take this value: " + r.Rule, Excerpt: r.Excerpt,
		Hint: "see what it takes with: helm show values, and in its values.schema.json",
	}
	switch {
	case r.ByChart:
		f.Message = "the chart " + r.Chart + " does not take its own value " + r.Value + ": " + r.Rule
	case r.Value == "":
		f.Message = "the chart " + r.Chart + " does not take these values: " + r.Rule
	}
	if secretLine.MatchString(r.Excerpt) {
		f.Excerpt = ""
	}
	return f
}
