package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui/graph"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/verdict"
	"github.com/kplan-dev/kplan/plan"
)

func newValidate(a *app) *cobra.Command {
	var (
		in     *plan.Inputs
		output string
	)
	cmd := &cobra.Command{
		Use:   "validate PLAN",
		Short: "Check a plan without a cluster",
		Long: `Read a plan and report every fault at once: syntax, fields, types, variables, needs and cycles, and files that are missing.
No cluster is asked, and nothing is downloaded.

Each fault is written to stderr as file:line:col: message, with the line and a hint. With -o all of them go to stdout:
json and yaml as data; github as workflow commands, which GitHub shows next to the lines; sarif as SARIF 2.1.0, for code scanning.
In github and sarif, paths are relative to $GITHUB_WORKSPACE where that is set.

Exit codes: 0 the plan is good, 2 it is not.`,
		Example: `  kplan validate plan.yaml
  kplan validate plan.yaml --var-file production.yaml --set eso_version=0.11.0
  kplan validate plan.yaml -o json
  kplan validate plan.yaml -o github            # in a GitHub workflow
  kplan validate plan.yaml -o sarif > plan.sarif`,
		Args:              onePlan,
		ValidArgsFunction: planFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			f := verdict.Format(output)
			if f != "" && !slices.Contains(verdict.Formats, f) {
				return usagef("there is no output format %q, only json, yaml, github and sarif", output)
			}
			return a.validate(args[0], *in, f)
		},
	}
	in = addInputs(cmd)
	addVerdictFormat(cmd, &output)
	return cmd
}

// addVerdictFormat registers the -o of commands that write a verdict.
func addVerdictFormat(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "", "write the verdict to stdout, as json, yaml, github or sarif")
	names := make([]string, len(verdict.Formats))
	for i, f := range verdict.Formats {
		names[i] = string(f)
	}
	complete(cmd, "output", names...)
}

func (a *app) validate(path string, in plan.Inputs, output verdict.Format) error {
	p, err := a.load(path, in)
	if output == "" {
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.stdout, "%s: valid, %s\n", ui.Clean(path), graph.Count(len(p.Steps), "step"))
		return err
	}
	r := verdict.Report{
		File: path, Valid: err == nil, Rules: verdict.FaultRules(),
		Root: os.Getenv("GITHUB_WORKSPACE"), Version: readBuild().Version,
	}
	if err == nil {
		r.Plan, r.Steps = a.secrets().Text(p.Metadata.Name), len(p.Steps)
	} else {
		faults, ok := errors.AsType[plan.Diagnostics](err)
		if !ok {
			return err
		}
		r.Findings = verdict.Faults(faults)
	}
	if e := r.Write(a.stdout, output); e != nil {
		return e
	}
	if err != nil {
		return &shownError{err}
	}
	return nil
}
