package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/schema"
)

func newSchema(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema [plan|events]",
		Short: "Write the JSON Schema of plan files, or of a run's events",
		Long: `Write a JSON Schema (draft-07) to stdout: that of plan files, for editors and for programs that write plans, or that of a run's events, for
programs that read what 'kplan run --record' or '--progress json' writes; each line is one event.

An editor with a YAML language server completes, explains and checks the fields of a plan whose first line is
  # yaml-language-server: $schema=plan.schema.json
where the path is relative to the plan.

The schema of plans knows fields, types and values. What takes more of the plan to judge, such as the names in needs, 'kplan validate' finds.`,
		Example: `  kplan schema > plan.schema.json
  kplan schema | jq '.definitions.Helm.properties | keys'
  kplan schema events > events.schema.json`,
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []cobra.Completion{"plan\tof plan files", "events\tof a run's events"},
		RunE: func(_ *cobra.Command, args []string) error {
			text := schema.Plan
			if len(args) > 0 && args[0] == "events" {
				text = schema.Events
			}
			if _, err := a.stdout.Write(text); err != nil {
				return fmt.Errorf("writing the schema: %w", err)
			}
			return nil
		},
	}
	return cmd
}
