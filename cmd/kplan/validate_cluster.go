package main

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/verdict"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps/preflight"
)

// askClusters finds what a plan's clusters have to say of it.
func (a *app) askClusters(ctx context.Context, p *plan.Plan) ([]verdict.Finding, error) {
	found, err := preflight.Check(ctx, p, a.flags, userAgent())
	if err != nil {
		return nil, err
	}
	all := make([]verdict.Finding, len(found))
	for i, f := range found {
		at := f.Step.Locate(f.Fields...)
		all[i] = verdict.Finding{
			Pos: at.Pos, Path: at.Path, Excerpt: at.Excerpt, Rule: string(f.Rule), Severity: severityOf(f.Rule),
			Message: a.line(f.Message), Hint: a.line(f.Hint),
		}
	}
	slices.SortFunc(all, func(x, y verdict.Finding) int {
		return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line), cmp.Compare(x.Col, y.Col), cmp.Compare(x.Message, y.Message))
	})
	return all, nil
}

// line is a text from a cluster or chart on one line, without what must not be shown.
func (a *app) line(text string) string {
	return strings.Join(strings.Fields(ui.Clean(a.secrets().Text(text))), " ")
}

func severityOf(r preflight.Rule) verdict.Severity {
	if r == preflight.Unchecked {
		return verdict.Note
	}
	return verdict.Error
}

// clusterRules are the rules of what clusters are asked.
func clusterRules() []verdict.Rule {
	rules := make([]verdict.Rule, len(preflight.Rules))
	for i, r := range preflight.Rules {
		rules[i] = verdict.Rule{ID: string(r), About: r.About(), Severity: severityOf(r)}
	}
	return rules
}
