package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui/graph"
	"github.com/kplan-dev/kplan/plan"
)

// verdict is what validate found, for programs.
type verdict struct {
	File        string           `json:"file"`
	Valid       bool             `json:"valid"`
	Plan        string           `json:"plan,omitempty"`
	Steps       int              `json:"steps"`
	Diagnostics plan.Diagnostics `json:"diagnostics"`
}

func newValidate(a *app) *cobra.Command {
	var (
		in     *plan.Inputs
		output format
	)
	cmd := &cobra.Command{
		Use:   "validate PLAN",
		Short: "Check a plan without a cluster",
		Long: `Read a plan and report every fault at once: syntax, fields, types, variables, needs and cycles, and files that are missing.
No cluster is asked, and nothing is downloaded.

Each fault is written to stderr as file:line:col: message, with the line and a hint; with -o as data to stdout.

Exit codes: 0 the plan is good, 2 it is not.`,
		Example: `  kplan validate plan.yaml
  kplan validate plan.yaml --var-file production.yaml --set eso_version=0.11.0
  kplan validate plan.yaml -o json`,
		Args:              onePlan,
		ValidArgsFunction: planFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := output.check(); err != nil {
				return err
			}
			return a.validate(args[0], *in, output)
		},
	}
	in = addInputs(cmd)
	addFormat(cmd, &output, "write the verdict to stdout, as json or yaml")
	return cmd
}

func (a *app) validate(path string, in plan.Inputs, output format) error {
	p, err := plan.Load(path, in)
	if output == formatNone {
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.stdout, "%s: valid, %s\n", ui.Clean(path), graph.Count(len(p.Steps), "step"))
		return err
	}
	v := verdict{File: path, Valid: err == nil, Diagnostics: plan.Diagnostics{}}
	if err == nil {
		v.Plan, v.Steps = p.Metadata.Name, len(p.Steps)
	} else if !errors.As(err, &v.Diagnostics) {
		return err
	}
	if e := a.print(output, v); e != nil {
		return e
	}
	if err != nil {
		return &shownError{err}
	}
	return nil
}
