package main

import (
	"bytes"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui/graph"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/plan/redact"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/analyze"
)

func newGraph(a *app) *cobra.Command {
	var (
		in       *load.Options
		picked   *plan.Selection
		output   = graph.Text
		webhooks bool
	)
	cmd := &cobra.Command{
		Use:   "graph [PLAN]",
		Short: "Show what needs what in a plan",
		Long: `Show the steps of a plan and what each of them needs, to stdout; without PLAN, of plan.yaml of the current folder. No cluster is asked.

text lists the steps by level: those of a level need nothing but steps above it. In dot and mermaid, arrows lead from a step
to those that need it. Steps that --tags, --skip-tags, --only, --from and --until leave out, as they do for kplan run, are drawn grey.

Charts are rendered, and fetched where they are not local, to show which steps' objects the plan's own webhooks intercept
(dashed arrows). Webhooks that an operator configures when it runs do not show. --webhooks=false leaves all of that out.`,
		Example: `  kplan graph plan.yaml
  kplan graph plan.yaml -o dot | dot -Tsvg > plan.svg
  kplan graph plan.yaml --until eso-webhook
  kplan graph plan.yaml -o mermaid --var-file production.yaml`,
		Args:              onePlan,
		ValidArgsFunction: planFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := a.choosePlan(args, false)
			if err != nil {
				return err
			}
			p, err := a.read(path, *in)
			if err != nil {
				return err
			}
			if err := p.Select(*picked); err != nil {
				return &usageError{err: err}
			}
			var guards []runner.Guard
			if webhooks {
				from, e := a.sources(p)
				if e != nil {
					return e
				}
				guards, err = analyze.Guards(cmd.Context(), p, from)
				a.warn("not all webhooks are shown", err)
			}
			return writeGraph(a.stdout, output, p, guards, a.secrets())
		},
	}
	in = addInputs(cmd)
	a.addFetching(cmd)
	picked = addSelection(cmd, in)
	cmd.Flags().BoolVar(&webhooks, "webhooks", true, "show which steps' objects the plan's own webhooks intercept")
	addFormat(cmd, &output, "how to write it: text, dot, mermaid or json", graph.Formats...)
	return cmd
}

// writeGraph writes the graph of a plan without what is sensitive.
func writeGraph(w io.Writer, f graph.Format, p *plan.Plan, guards []runner.Guard, secrets *redact.Set) error {
	var b bytes.Buffer
	err := graph.Write(&b, f, p, guards)
	if err == nil && f == graph.JSON {
		_, err = w.Write(secrets.JSON(b.Bytes()))
	} else if err == nil {
		_, err = io.WriteString(w, secrets.Text(b.String()))
	}
	if err != nil {
		return fmt.Errorf("writing the graph: %w", err)
	}
	return nil
}
