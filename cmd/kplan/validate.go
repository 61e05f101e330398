package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/findings"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan"
)

func newValidate(a *app) *cobra.Command {
	var (
		in      *plan.Options
		output  string
		cluster bool
	)
	cmd := &cobra.Command{
		Use:   "validate [PLAN]",
		Short: "Check a plan, without a cluster unless asked to",
		Long: `Read a plan and report every fault at once: syntax, fields, types, variables, needs and cycles, and files that are missing.
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
			f := findings.Format(output)
			if f != "" && !slices.Contains(findings.Formats, f) {
				return usagef("there is no output format %q, only json, yaml, github and sarif", output)
			}
			path, err := a.choosePlan(args, false)
			if err != nil {
				return err
			}
			if cluster {
				return a.validate(path, *in, f, func(p *plan.Plan) ([]findings.Finding, error) { return a.askClusters(cmd.Context(), p) })
			}
			return a.validate(path, *in, f, nil)
		},
	}
	in = addInputs(cmd)
	cmd.Flags().BoolVar(&cluster, "cluster", false, "ask the plan's clusters too; they are only read")
	addFindingsFormat(cmd, &output)
	return cmd
}

// addFindingsFormat registers the -o of commands that write findings.
func addFindingsFormat(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "", "write the verdict to stdout, as json, yaml, github or sarif")
	names := make([]string, len(findings.Formats))
	for i, f := range findings.Formats {
		names[i] = string(f)
	}
	complete(cmd, "output", names...)
}

// validate reads a plan and tells what is wrong with it; ask, unless nil, finds
// more in one that can be read.
func (a *app) validate(path string, in plan.Options, output findings.Format, ask func(*plan.Plan) ([]findings.Finding, error)) error {
	p, err := a.read(path, in)
	var found []findings.Finding
	if err == nil && ask != nil {
		if found, err = ask(p); err != nil {
			return err
		}
		err = faultsOf(found)
	}
	if output == "" {
		for _, f := range found {
			if f.Severity != findings.Error {
				fmt.Fprintln(a.stderr, f)
			}
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.stdout, "%s: valid, %s\n", words.Clean(path), words.Count(len(p.Steps), "step"))
		return err
	}
	r := findings.Report{
		File: path, Valid: err == nil, Rules: findings.FaultRules(), Findings: found,
		Root: os.Getenv("GITHUB_WORKSPACE"), Version: readBuild().Version,
	}
	if ask != nil {
		r.Rules = append(r.Rules, clusterRules()...)
	}
	if p != nil {
		r.Plan, r.Steps = a.secrets().Text(p.Metadata.Name), len(p.Steps)
	} else {
		faults, ok := errors.AsType[plan.Diagnostics](err)
		if !ok {
			return err
		}
		r.Findings = findings.Faults(faults)
	}
	if e := r.Write(a.stdout, output); e != nil {
		return e
	}
	if err != nil {
		return &shownError{err}
	}
	return nil
}

// faultsOf are the findings that make a plan a bad one, as an error.
func faultsOf(found []findings.Finding) error {
	var ds plan.Diagnostics
	for _, f := range found {
		if f.Severity == findings.Error {
			ds = append(ds, plan.Diagnostic{
				Pos: f.Pos, Code: plan.Code(f.Rule), Path: f.Path, Message: f.Message, Hint: f.Hint, Excerpt: f.Excerpt,
			})
		}
	}
	if len(ds) == 0 {
		return nil
	}
	return ds
}
