package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/findings"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/steps/analyze"
	"github.com/kplan-dev/kplan/steps/preflight"
)

func newValidate(a *app) *cobra.Command {
	var (
		in      *load.Options
		output  data.Format
		cluster bool
	)
	cmd := &cobra.Command{
		Use:   "validate [PLAN]",
		Short: "Check a plan, without a cluster unless asked to",
		Long: `Read a plan and report every fault at once: syntax, fields, types, variables, needs and cycles, and files that are missing.
Values of charts that are folders or archives are held against the charts' values.schema.json.
Without PLAN it is plan.yaml of the current folder. No cluster is asked, and nothing is downloaded.

With --cluster the plan's clusters are asked too, and charts are fetched and rendered: that kinds and namespaces exist or are brought by a step
before, that the API server takes the objects (by dry runs, which write nothing), and that releases are not of another chart. What cannot be told
before the run, such as what a webhook says that does not answer yet, is noted and is no fault.

Each fault is written to stderr as file:line:col: message, with the line and a hint. With -o all of them go to stdout:
json and yaml as data; github as workflow commands, which GitHub shows next to the lines; sarif as SARIF 2.1.0, for code scanning.
In github and sarif, paths are relative to $GITHUB_WORKSPACE where that is set.

Exit codes: 0 the plan is good, 2 it is not, 1 a cluster cannot be asked.`,
		Example: `  kplan validate plan.yaml
  kplan validate plan.yaml --var-file production.yaml --set eso_version=0.11.0
  kplan validate plan.yaml --cluster --context staging
  kplan validate plan.yaml -o json
  kplan validate plan.yaml -o github            # in a GitHub workflow
  kplan validate plan.yaml -o sarif > plan.sarif`,
		Args:              onePlan,
		ValidArgsFunction: planFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := a.choosePlan(args, false)
			if err != nil {
				return err
			}
			return (&validation{a, output, cluster}).of(cmd.Context(), path, *in)
		},
	}
	in = addInputs(cmd)
	a.addFetching(cmd)
	cmd.Flags().BoolVar(&cluster, "cluster", false, "ask the plan's clusters too; they are only read")
	addFormat(cmd, &output, "write the verdict to stdout, as json, yaml, github or sarif", findings.Formats...)
	return cmd
}

// validation tells what is wrong with plans.
type validation struct {
	*app
	output  data.Format
	cluster bool // ask the clusters too
}

// of reads a plan and tells what is wrong with it, and what its clusters have to say of
// one that can be read.
func (v *validation) of(ctx context.Context, path string, in load.Options) error {
	p, err := v.read(path, in)
	rules := finding.Codes()
	var found []finding.Finding
	if faults, ok := errors.AsType[document.Diagnostics](err); ok {
		found = finding.Of(faults)
	} else if err != nil {
		return err
	}
	if p != nil {
		from, e := v.sources(p)
		if e != nil {
			return e
		}
		found = analyze.Values(ctx, p, from)
		finding.Sort(found, nil)
		err = finding.Diagnostics(found)
	}
	if p != nil && v.cluster && err == nil {
		if found, err = v.askClusters(ctx, p); err != nil {
			return err
		}
		rules, err = append(rules, preflight.Rules...), finding.Diagnostics(found)
	}
	if v.output != "" {
		return cmp.Or(v.writeFindings(v.output, path, p, found, rules), shown(err))
	}
	for _, f := range found {
		if f.Severity != finding.Error {
			fmt.Fprintln(v.stderr, f)
		}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(v.stdout, "%s: valid, %s\n", words.Clean(path), words.Count(len(p.Steps), "step"))
	return err
}

// writeFindings writes to stdout what was found in a plan. The plan is nil when it
// cannot be read.
func (a *app) writeFindings(output data.Format, path string, p *plan.Plan, found []finding.Finding, rules []finding.Rule) error {
	r := findings.Report{File: path, Findings: found, Rules: rules, Root: os.Getenv("GITHUB_WORKSPACE"), Version: readBuild().Version}
	r.Valid = !slices.ContainsFunc(found, func(f finding.Finding) bool { return f.Severity == finding.Error })
	if p != nil {
		r.Plan, r.Steps = a.secrets().Text(p.Metadata.Name), len(p.Steps)
	}
	return r.Write(a.stdout, output)
}

// askClusters finds what a plan's clusters have to say of it.
func (v *validation) askClusters(ctx context.Context, p *plan.Plan) ([]finding.Finding, error) {
	from, err := v.sources(p)
	if err != nil {
		return nil, err
	}
	found, err := preflight.Check(ctx, p, v.flags, from, userAgent())
	for i := range found {
		found[i].Message, found[i].Hint = v.oneLine(found[i].Message), v.oneLine(found[i].Hint)
	}
	return found, err
}
