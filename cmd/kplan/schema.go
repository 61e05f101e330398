package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/schema"
)

func newSchema(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Write the JSON Schema of plan files",
		Long: `Write the JSON Schema (draft-07) of plan files to stdout, for editors and for programs that write plans.

An editor with a YAML language server completes, explains and checks the fields of a plan whose first line is
  # yaml-language-server: $schema=plan.schema.json
where the path is relative to the plan.

The schema knows fields, types and values. What takes more of the plan to judge, such as the names in needs, 'kplan validate' finds.`,
		Example: `  kplan schema > plan.schema.json
  kplan schema | jq '.definitions.Helm.properties | keys'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			if _, err := a.stdout.Write(schema.Plan); err != nil {
				return fmt.Errorf("writing the schema: %w", err)
			}
			return nil
		},
	}
}
