package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/lab/internal/cluster"
)

func restartCommand(o *options) *cobra.Command {
	var grace time.Duration
	cmd := componentCommand(o, "restart", "stop a component and start it anew",
		func(ctx context.Context, lab *cluster.Lab, name string) error {
			if err := lab.Stop(ctx, name, grace); err != nil {
				return err
			}
			return lab.Start(ctx, name)
		})
	graceFlag(cmd, &grace)
	return cmd
}

func stopCommand(o *options) *cobra.Command {
	var grace time.Duration
	cmd := componentCommand(o, "stop", "stop a component",
		func(ctx context.Context, lab *cluster.Lab, name string) error { return lab.Stop(ctx, name, grace) })
	graceFlag(cmd, &grace)
	return cmd
}

func startCommand(o *options) *cobra.Command {
	return componentCommand(o, "start", "start a component that was stopped",
		func(ctx context.Context, lab *cluster.Lab, name string) error { return lab.Start(ctx, name) })
}

// graceFlag: an API server with open watches would take a minute to end.
func graceFlag(cmd *cobra.Command, grace *time.Duration) {
	cmd.Flags().DurationVar(grace, "grace", 2*time.Second, "how long it may finish requests before it is killed; 0 kills it at once")
}

func componentCommand(o *options, verb, short string, act func(context.Context, *cluster.Lab, string) error) *cobra.Command {
	return &cobra.Command{
		Use: verb + " COMPONENT", Short: short + ", e.g. apiserver", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			lab, err := cluster.Must(o.name)
			if err != nil {
				return err
			}
			name, err := lab.Component(args[0])
			if err != nil {
				return err
			}
			return act(cmd.Context(), lab, name)
		},
	}
}
