package main

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/findings"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps"
	"github.com/kplan-dev/kplan/steps/check"
)

// askClusters finds what a plan's clusters have to say of it.
func (a *app) askClusters(ctx context.Context, p *plan.Plan) ([]findings.Finding, error) {
	found, err := steps.Check(ctx, steps.Config{Flags: a.flags, Plan: p, UserAgent: userAgent()})
	if err != nil {
		return nil, err
	}
	all := make([]findings.Finding, len(found))
	for i, f := range found {
		at := f.Step.Locate(f.Fields...)
		all[i] = findings.Finding{
			Pos: at.Pos, Path: at.Path, Excerpt: at.Excerpt, Rule: string(f.Rule), Severity: severityOf(f.Rule),
			Message: a.line(f.Message), Hint: a.line(f.Hint),
		}
	}
	slices.SortFunc(all, func(x, y findings.Finding) int {
		return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line), cmp.Compare(x.Col, y.Col), cmp.Compare(x.Message, y.Message))
	})
	return all, nil
}

// line is a text from a cluster or chart on one line, without what must not be shown.
func (a *app) line(text string) string {
	return strings.Join(strings.Fields(words.Clean(a.secrets().Text(text))), " ")
}

func severityOf(r check.Rule) findings.Severity {
	if r == check.Unchecked {
		return findings.Note
	}
	return findings.Error
}

// clusterRules are the rules of what clusters are asked.
func clusterRules() []findings.Rule {
	rules := make([]findings.Rule, len(check.Rules))
	for i, r := range check.Rules {
		rules[i] = findings.Rule{ID: string(r), About: r.About(), Severity: severityOf(r)}
	}
	return rules
}
