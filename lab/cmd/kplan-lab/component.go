package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/lab/internal/cluster"
)

// componentCommand stops a component, starts it, or does both in turn.
func componentCommand(o *options, verb, short string, stop, start bool) *cobra.Command {
	var grace time.Duration
	cmd := &cobra.Command{
		Use: verb + " COMPONENT", Short: short + ", e.g. apiserver", Args: cobra.ExactArgs(1),
		RunE: o.onLab(func(cmd *cobra.Command, lab *cluster.Lab, args []string) error {
			name, err := lab.Component(args[0])
			if err == nil && stop {
				err = lab.Stop(cmd.Context(), name, grace)
			}
			if err == nil && start {
				err = lab.Start(cmd.Context(), name)
			}
			return err
		}),
	}
	if stop {
		// An API server with open watches would take a minute to end.
		cmd.Flags().DurationVar(&grace, "grace", 2*time.Second, "how long it may finish requests before it is killed; 0 kills it at once")
	}
	return cmd
}
