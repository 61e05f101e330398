package main

import (
	"github.com/spf13/cobra"
)

func newFleet(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Run one plan on many clusters",
		Long: `Run one plan on many clusters: those that a fleet file finds by its inventories, in the waves that it says.

'kplan fleet plan' shows what would run where and asks all clusters first; 'kplan fleet run' does it, in this process or by Jobs of a
management cluster, as the file's engine says.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newFleetValidate(a), newFleetLint(a), newFleetPlan(a))
	cmd.AddCommand(newFleetRun(a), newFleetResume(a), newFleetStatus(a), newFleetPause(a), newFleetApprove(a), newFleetAbort(a))
	cmd.AddCommand(newFleetReport(a), newFleetReplay(a))
	cmd.AddCommand(newFleetAttach(a), newFleetRBAC(a), newFleetWorker(a), newFleetDriver(a), newFleetMember(a))
	return cmd
}
