package plan_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
)

// picks is a plan whose steps stand as NAME[,TAG…] [< NEED…], finally steps with
// a ! behind the name.
func picks(lines ...string) *plan.Plan {
	p := &plan.Plan{}
	for _, line := range lines {
		head, needs, _ := strings.Cut(line, "<")
		words := strings.Fields(head)
		s := plan.Step{Needs: plan.Needs(strings.Fields(needs)...), Tags: words[1:]}
		s.Name, s.Last = strings.TrimSuffix(words[0], "!"), strings.HasSuffix(words[0], "!")
		p.Steps = append(p.Steps, s)
	}
	return p
}

func example() *plan.Plan {
	return picks(
		"operator core",
		"crds core slow < operator",
		"webhook < crds",
		"secrets[a] apps < webhook",
		"secrets[b/c] apps < webhook",
		"monitoring/prometheus < operator",
		"monitoring/rules slow < monitoring/prometheus webhook",
		"report! apps",
	)
}

func TestSelect(t *testing.T) {
	for name, c := range map[string]struct {
		selection plan.Selection
		want      string
	}{
		"everything":          {plan.Selection{}, "operator crds webhook secrets[a] secrets[b/c] monitoring/prometheus monitoring/rules report"},
		"a tag":               {plan.Selection{Tags: []string{"core"}}, "operator crds report"},
		"one of two tags":     {plan.Selection{Tags: []string{"core", "apps"}}, "operator crds secrets[a] secrets[b/c] report"},
		"all but a tag":       {plan.Selection{SkipTags: []string{"slow"}}, "operator webhook secrets[a] secrets[b/c] monitoring/prometheus report"},
		"finally by its tag":  {plan.Selection{SkipTags: []string{"apps"}}, "operator crds webhook monitoring/prometheus monitoring/rules"},
		"a tag but not other": {plan.Selection{Tags: []string{"core"}, SkipTags: []string{"slow"}}, "operator report"},
		"one":                 {plan.Selection{Only: []string{"webhook"}}, "webhook"},
		"one of finally":      {plan.Selection{Only: []string{"report"}}, "report"},
		"a group":             {plan.Selection{Only: []string{"secrets"}}, "secrets[a] secrets[b/c]"},
		"both":                {plan.Selection{Only: []string{"secrets[b/c]"}}, "secrets[b/c]"},
		"an include":          {plan.Selection{Only: []string{"monitoring"}}, "monitoring/prometheus monitoring/rules"},
		"two":                 {plan.Selection{Only: []string{"operator", "webhook"}}, "operator webhook"},
		"from":                {plan.Selection{From: []string{"webhook"}}, "webhook secrets[a] secrets[b/c] monitoring/rules report"},
		"until":               {plan.Selection{Until: []string{"monitoring"}}, "operator crds webhook monitoring/prometheus monitoring/rules report"},
		"from and until":      {plan.Selection{From: []string{"crds"}, Until: []string{"secrets"}}, "crds webhook secrets[a] secrets[b/c] report"},
		"from, but not a tag": {plan.Selection{From: []string{"crds"}, SkipTags: []string{"slow", "apps"}}, "webhook"},
	} {
		t.Run(name, func(t *testing.T) {
			p := example()
			require.NoError(t, p.Select(c.selection))
			var got []string
			for _, s := range p.Steps {
				if s.Skip == "" {
					got = append(got, s.Name)
				}
			}
			require.Equal(t, c.want, strings.Join(got, " "))
		})
	}
}

func TestSelectSaysWhy(t *testing.T) {
	p := example()
	p.Steps[0].Skip = "its when is false"
	require.NoError(t, p.Select(plan.Selection{From: []string{"crds"}, Tags: []string{"core", "apps"}, SkipTags: []string{"slow"}}))
	why := map[string]string{}
	for _, s := range p.Steps {
		why[s.Name] = s.Skip
	}
	require.Equal(t, map[string]string{
		"operator":              "its when is false",
		"crds":                  "left out by --skip-tags slow",
		"webhook":               "not picked by --tags core, apps",
		"secrets[a]":            "",
		"secrets[b/c]":          "",
		"monitoring/prometheus": "not picked by --from crds",
		"monitoring/rules":      "left out by --skip-tags slow",
		"report":                "",
	}, why)
}

func TestSelectRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		selection  plan.Selection
		want, hint string
	}{
		"a step":                {plan.Selection{Only: []string{"webhok"}}, `--only: there is no step "webhok"`, `did you mean "webhook"?`},
		"a group":               {plan.Selection{From: []string{"secret"}}, `--from: there is no step "secret"`, `did you mean "secrets"?`},
		"an include":            {plan.Selection{Until: []string{"monitorin"}}, `--until: there is no step "monitorin"`, `did you mean "monitoring"?`},
		"part of a name":        {plan.Selection{Only: []string{"web"}}, `--only: there is no step "web"`, `did you mean "webhook"?`},
		"no name":               {plan.Selection{Only: []string{""}}, `--only: there is no step ""`, ""},
		"a tag":                 {plan.Selection{Tags: []string{"cores"}}, `--tags: there is no tag "cores"`, `did you mean "core"?`},
		"a tag to skip":         {plan.Selection{SkipTags: []string{"fast"}}, `--skip-tags: there is no tag "fast"`, ""},
		"a finally step's rest": {plan.Selection{From: []string{"webhook"}, Until: []string{"operator"}}, "no step of the plan is picked", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := example()
			err := p.Select(c.selection)
			require.EqualError(t, err, c.want)
			var refused *plan.SelectionError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, c.hint, refused.Hint())
			require.Equal(t, example(), p, "the plan is as it was")
		})
	}
}

// Who reads an output needs the step that gives it, unless it asks whether it is there.
func TestSelectLeavesOutputs(t *testing.T) {
	for name, c := range map[string]struct {
		selection plan.Selection
		want      string
	}{
		"from":           {plan.Selection{From: []string{"b"}}, "b reads an output of a, which --from b leaves out"},
		"only":           {plan.Selection{Only: []string{"b"}}, "b reads an output of a, which --only b leaves out"},
		"tags":           {plan.Selection{Tags: []string{"late", "x"}}, "b reads an output of a, which --tags late, x leaves out"},
		"tags to skip":   {plan.Selection{SkipTags: []string{"early"}}, "b reads an output of a, which --skip-tags early leaves out"},
		"both":           {plan.Selection{Only: []string{"b", "a"}}, ""},
		"asked with has": {plan.Selection{From: []string{"c"}}, ""},
		"a when":         {plan.Selection{From: []string{"d"}}, ""},
		"neither":        {plan.Selection{Only: []string{"g"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := load.Parse("p.yaml", []byte(head+`
steps:
  - {name: a, tags: [early], wait: {resource: pod/x, for: create}, outputs: {o: {resource: pod/x, jsonpath: "{.a}"}}}
  - {name: g, for_each: [x, y], tags: [x], wait: {resource: pod/x, for: create}}
  - {name: b, needs: [a], tags: [late], description: "${{ steps.a.outputs.o }}", wait: {resource: pod/x, for: create}}
  - {name: c, needs: [a], description: "${{ has(steps.a.outputs.o) ? steps.a.outputs.o : 'none' }}", wait: {resource: pod/x, for: create}}
  - {name: d, needs: [a], when: "${{ steps.a.state == 'succeeded' }}", description: "${{ steps.a.outputs.o }}", wait: {resource: pod/x, for: create}}
`), load.Options{})
			require.NoError(t, err)
			err = p.Select(c.selection)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.want)
			var refused *plan.SelectionError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, "pick a too, or ask for its output o with has(…)", refused.Hint())
		})
	}
}

func TestNamesToSelect(t *testing.T) {
	p := picks("a z", "b[x/y] y z", "b[z]", "c[k]/d", "e/f/g[h]")
	require.Equal(t, []string{"a", "b", "b[x/y]", "b[z]", "c", "c[k]/d", "e", "e/f", "e/f/g", "e/f/g[h]"}, p.StepNames())
	require.Equal(t, []string{"y", "z"}, p.TagNames())
}
