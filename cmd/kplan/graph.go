package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui/graph"
	"github.com/kplan-dev/kplan/plan"
)

func newGraph(a *app) *cobra.Command {
	var (
		in     *plan.Inputs
		output string
	)
	cmd := &cobra.Command{
		Use:   "graph PLAN",
		Short: "Show what needs what in a plan",
		Long: `Show the steps of a plan and what each of them needs, to stdout. No cluster is asked.

text lists the steps by level: those of a level need nothing but steps above it. In dot and mermaid, arrows lead from a step
to those that need it.`,
		Example: `  kplan graph plan.yaml
  kplan graph plan.yaml -o dot | dot -Tsvg > plan.svg
  kplan graph plan.yaml -o mermaid --var-file production.yaml`,
		Args:              onePlan,
		ValidArgsFunction: planFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			f := graph.Format(output)
			if !slices.Contains(graph.Formats, f) {
				return usagef("there is no output format %q, only text, dot, mermaid and json", output)
			}
			p, err := plan.Load(args[0], *in)
			if err != nil {
				return err
			}
			if err := graph.Write(a.stdout, f, p); err != nil {
				return fmt.Errorf("writing the graph: %w", err)
			}
			return nil
		},
	}
	in = addInputs(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", string(graph.Text), "how to write it: text, dot, mermaid or json")
	names := make([]string, len(graph.Formats))
	for i, f := range graph.Formats {
		names[i] = string(f)
	}
	complete(cmd, "output", names...)
	return cmd
}
