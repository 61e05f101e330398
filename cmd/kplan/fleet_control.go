package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes"
	"github.com/kplan-dev/kplan/fleet/record"
)

func newFleetPause(a *app) *cobra.Command {
	runs := &fleetRuns{app: a}
	cmd := &cobra.Command{
		Use:   "pause [RUN]",
		Short: "Let a fleet's run start nothing new",
		Long: `Let a run of a fleet start the plan on no other cluster, until 'kplan fleet resume'. What is at work goes on to its end.
Without RUN it is the newest unfinished one.`,
		Example: `  kplan fleet pause`,
		Args:    oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if at, err := runs.remote(cmd.Context(), first(args), kubernetes.ToOrder); at != nil || err != nil {
				return orElse(err, func() error { return at.pause(cmd.Context()) })
			}
			return runs.orderTo(first(args), func(c *fleet.Control) { c.Paused = true }, "starts nothing new")
		},
	}
	runs.addFleet(cmd)
	return cmd
}

func newFleetAbort(a *app) *cobra.Command {
	runs := &fleetRuns{app: a}
	now := false
	cmd := &cobra.Command{
		Use:   "abort [RUN]",
		Short: "Stop a fleet's run",
		Long: `Let a run of a fleet start nothing any more. What is at work goes on to its end; with --now it is told to stop, as by ^C in 'kplan run'.
Without RUN it is the newest unfinished one. 'kplan fleet resume' does what is left.`,
		Example: `  kplan fleet abort
  kplan fleet abort --now`,
		Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if at, err := runs.remote(cmd.Context(), first(args), kubernetes.ToDrive); at != nil || err != nil {
				return orElse(err, func() error { return at.abort(cmd.Context(), now) })
			}
			return runs.orderTo(first(args), func(c *fleet.Control) { c.Aborted, c.Now = true, c.Now || now }, "is aborted")
		},
	}
	cmd.Flags().BoolVar(&now, "now", false, "stop what is at work too")
	runs.addFleet(cmd)
	return cmd
}

func newFleetApprove(a *app) *cobra.Command {
	runs := &fleetRuns{app: a}
	cmd := &cobra.Command{
		Use:     "approve WAVE [RUN]",
		Short:   "Let a wave of a fleet's run begin",
		Long:    `Let a wave begin that has approve: true in the fleet file, once the waves before it are over. Without RUN it is the newest unfinished one.`,
		Example: `  kplan fleet approve rest`,
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if at, err := runs.remote(cmd.Context(), first(args[1:]), kubernetes.ToOrder); at != nil || err != nil {
				return orElse(err, func() error { return at.approve(cmd.Context(), args[0]) })
			}
			run, err := runs.find(first(args[1:]), true)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(run.Rollout.Waves, func(w fleet.WaveInfo) bool { return w.Name == args[0] }) {
				var names []string
				for _, w := range run.Rollout.Waves {
					names = append(names, w.Name)
				}
				return &usageError{err: fmt.Errorf("the run has no wave %s", words.Clean(args[0])), hint: "it has: " + strings.Join(names, ", ")}
			}
			return runs.order(run, func(c *fleet.Control) { c.Approve(args[0]) }, "may begin wave "+args[0])
		},
	}
	runs.addFleet(cmd)
	return cmd
}

// orderTo orders something of a run, the newest unfinished one by default.
func (r *fleetRuns) orderTo(run string, change func(*fleet.Control), done string) error {
	found, err := r.find(run, true)
	if err != nil {
		return err
	}
	return r.order(found, change, done)
}

// order keeps an order where the process that runs the fleet finds it.
func (r *fleetRuns) order(run *record.Run, change func(*fleet.Control), done string) error {
	_, err := run.Change(func(c *fleet.Control) {
		change(c)
		c.By = runBy(run.ID)
	})
	if err != nil {
		return fmt.Errorf("keeping the order: %w", err)
	}
	text := fmt.Sprintf("run %s %s", run.ID, done)
	if r.folder().Active(run.Rollout.Fleet) == nil {
		text += "; nobody runs it now: " + r.fleetCommand("resume", r.file, run.ID) + " does"
	}
	_, err = fmt.Fprintln(r.stdout, text)
	return err
}
