package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/fleetview"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes"
	"github.com/kplan-dev/kplan/fleet/freeze"
	"github.com/kplan-dev/kplan/fleet/record"
	"github.com/kplan-dev/kplan/plan/load"
)

func newFleetResume(a *app) *cobra.Command {
	o := &fleetRunOptions{app: a}
	runs := &fleetRuns{app: a}
	var in *load.Options
	cmd := &cobra.Command{
		Use:   "resume [RUN]",
		Short: "Go on with a fleet's run: lift a pause, or do what is unfinished",
		Long: `Go on with a run of a fleet, the newest unfinished one by default.

A run that is paused starts clusters again; whoever runs it goes on with that. One that is over, or whose process is gone, is run here: the plan
runs on each cluster where it is not done yet, with the same rollout, and with the files, --set and --var-file of the run. It is refused when one of
these has changed. On a cluster that was at work when the process was killed the plan takes over what it left pending.

Exit codes: those of 'kplan fleet run'.`,
		Example: `  kplan fleet resume
  kplan fleet resume 20261122-161030-3a12cd --parallel 4`,
		Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.inputs = in
			return o.resume(cmd.Context(), runs, first(args))
		},
	}
	in = addFleetInputs(cmd)
	o.addRunning(cmd)
	runs.addFleet(cmd)
	return cmd
}

// resume goes on with a run.
func (o *fleetRunOptions) resume(ctx context.Context, runs *fleetRuns, run string) error {
	mode, err := o.mode(o.progress)
	if err == nil {
		err = o.check()
	}
	if err != nil {
		return err
	}
	if at, err := runs.remote(ctx, run, kubernetes.ToBegin); at != nil || err != nil {
		return orElse(err, func() error {
			ctx, signals := interrupt.Context(ctx)
			defer signals.Release()
			return stopped(ctx, at.resume(ctx, o, mode, signals))
		})
	}
	found, err := runs.find(run, true)
	if err != nil {
		return err
	}
	folder := record.Folder(filepath.Dir(found.Dir))
	if at := folder.Active(found.Rollout.Fleet); at != nil && at.Run == found.ID {
		if err := o.tooEarly(found); err != nil {
			return err
		}
		return runs.order(found, func(c *fleet.Control) { c.Paused = false }, "goes on")
	}
	lock, err := folder.Lock(found.Rollout.Fleet, holderOf(found.ID))
	if err != nil {
		return err
	}
	defer lock.Release()
	x, err := found.Execution()
	if err != nil {
		return err
	}
	if !(record.Summary{State: x.State, Counts: x.Counts()}).Unfinished() {
		return &usageError{err: fmt.Errorf("run %s has nothing left to do", found.ID), hint: "run the fleet anew by: " + o.name + " fleet run"}
	}
	ctx, signals := interrupt.Context(ctx)
	defer signals.Release()
	w := &fleetWork{fleetRunOptions: o, mode: mode, signals: signals, record: found}
	if err := w.unmoved(ctx); err != nil {
		return stopped(ctx, err)
	}
	return w.run(ctx)
}

// tooEarly returns an error when a run that is at work starts nothing any more: it can go on
// once it is over.
func (o *fleetRunOptions) tooEarly(run *record.Run) error {
	x, err := run.Execution()
	if err != nil {
		return err
	}
	control, err := run.Control()
	if err != nil {
		return err
	}
	stop := x.Stop
	if stop == nil && control.Aborted {
		stop = &fleet.Stop{Kind: fleet.StopAborted, By: control.By}
	}
	if stop == nil {
		return nil
	}
	return &usageError{err: fmt.Errorf("run %s starts nothing any more: %s", run.ID, fleetview.StopText(stop)), hint: "resume it once what is at work there is over"}
}

// unmoved reads the run's fleet and plan again, and refuses when they are not what they were.
func (w *fleetWork) unmoved(ctx context.Context) error {
	then := w.record.Inputs
	hint := "run the fleet anew by: " + w.name + " fleet run"
	given, err := givenSum(*w.inputs)
	if err != nil {
		return err
	}
	if given != then.Given {
		return &usageError{err: fmt.Errorf("run %s was given other values by --set, --var-file or --helm-engine", w.record.ID), hint: "give the same ones again, in the same order, or " + hint}
	}
	sum, err := fileSum(then.Fleet)
	if err != nil {
		return &usageError{err: fmt.Errorf("reading the run's fleet file: %w", err)}
	}
	if sum != then.Files[then.Fleet] {
		return &usageError{err: fmt.Errorf("%s has changed since run %s began", words.Clean(then.Fleet), w.record.ID), hint: hint}
	}
	if w.fleet, err = w.loadFleet(then.Fleet, *w.inputs); err != nil {
		return &usageError{err: err}
	}
	w.managed = w.app.managed(w.fleet)
	values := *w.inputs
	values.Decrypter = w.keys
	now, err := freeze.BundleOf(ctx, w.record.Rollout, then.Plan, values)
	if err != nil {
		return err
	}
	if now.Digest == w.record.Rollout.Bundle {
		return nil
	}
	return &usageError{err: fmt.Errorf("the plan's files have changed since run %s began: %s", w.record.ID, changedFiles(then, now.Sums())), hint: hint}
}

// changedFiles names those of a run's files that are not what they were.
func changedFiles(then record.Inputs, now map[string]string) string {
	old := maps.Clone(then.Files)
	delete(old, then.Fleet)
	names := map[string]bool{}
	for name, sum := range now {
		if old[name] != sum {
			names[name] = true
		}
	}
	for name := range old {
		if now[name] == "" {
			names[name] = true
		}
	}
	return cmp.Or(words.List(slices.Sorted(maps.Keys(names)), 5), "their places")
}
