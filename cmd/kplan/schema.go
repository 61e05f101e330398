package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/schema"
)

func newSchema(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema [plan|fleet|events|fleet-events]",
		Short: "Write the JSON Schema of plan or fleet files, or of a run's events",
		Long: `Write a JSON Schema (draft-07) to stdout: that of plan files or of fleet files, for editors and for programs that write them, or that of a run's
events, for programs that read what 'kplan run --record' or '--progress json' writes; each line is one event. Runs of fleets have events of
their own.

An editor with a YAML language server completes, explains and checks the fields of a plan whose first line is
  # yaml-language-server: $schema=plan.schema.json
where the path is relative to the plan.

The schemas of files know fields, types and values. What takes more of the file to judge, such as the names in needs, 'kplan validate' and
'kplan fleet validate' find.`,
		Example: `  kplan schema > plan.schema.json
  kplan schema | jq '.definitions.Helm.properties | keys'
  kplan schema fleet > fleet.schema.json
  kplan schema events > events.schema.json`,
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []cobra.Completion{"plan\tof plan files", "fleet\tof fleet files", "events\tof a run's events", "fleet-events\tof the events of a fleet's run"},
		RunE: func(_ *cobra.Command, args []string) error {
			text := schema.Plan
			if len(args) > 0 {
				text = map[string][]byte{"plan": schema.Plan, "fleet": schema.Fleet, "events": schema.Events, "fleet-events": schema.FleetEvents}[args[0]]
			}
			if _, err := a.stdout.Write(text); err != nil {
				return fmt.Errorf("writing the schema: %w", err)
			}
			return nil
		},
	}
	return cmd
}
