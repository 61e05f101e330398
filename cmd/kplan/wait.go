package main

import "github.com/spf13/cobra"

func newWait(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wait",
		Short: "Wait for something in the cluster, without a plan",
		Long: `Wait until something in the cluster is as it should be, as a step of a plan does, but without a plan.

Exit codes: 0 it is, 1 it cannot become so, 2 bad usage, 4 timed out, 130 and 143 stopped by SIGINT and SIGTERM.`,
		Example: `  kplan wait webhook --release external-secrets -n external-secrets
  kplan wait webhook -f store.yaml --stable 3 --timeout 2m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newWaitWebhook(a))
	return cmd
}
