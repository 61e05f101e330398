package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/report"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/freeze"
	"github.com/kplan-dev/kplan/fleet/inventory"
	fleetload "github.com/kplan-dev/kplan/fleet/load"
	"github.com/kplan-dev/kplan/fleet/record"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan/load"
)

// fleetRunOptions are the flags of commands that run a fleet.
type fleetRunOptions struct {
	*app
	inputs   *load.Options
	parallel int
	digest   string
	file     string // of --fleet, beside a rollout
	progress string
	wanted   *[]string     // values of --report
	reports  []report.File // what they say
	lockWait time.Duration
	recordIn []string
	detach   bool
	stay     bool
}

func newFleetRun(a *app) *cobra.Command {
	o := &fleetRunOptions{app: a}
	cmd := &cobra.Command{
		Use:   "run [FLEET | ROLLOUT.json]",
		Short: "Run a plan on all clusters of a fleet",
		Long: `Run the plan of a fleet file on all of its clusters, wave by wave. Without FLEET that is fleet.yaml of the current folder.

First the fleet is frozen: which clusters there are, in which waves, with which values, and which files the plan is. --digest refuses to run
anything else than what 'kplan fleet plan' has shown. A rollout that --plan-out of that wrote is run as it is: the clusters are not looked for again,
and it is refused when the plan's files have changed. --fleet names its fleet file.

A cluster that fails stops no other one. Once more have failed than a wave or the budget allows, nothing new starts, and what is at work goes on to
its end. A cluster whose requests are held for a webhook has not failed.

What happens is kept in .kplan/fleets beside the fleet file. 'kplan fleet status' shows how the run stands, pause, resume, abort and approve give
it orders, from any terminal. The first ^C or SIGTERM starts nothing new and tells what is at work to stop, as it does with 'kplan run'; the second
aborts at once. 'kplan fleet resume' goes on with what is unfinished, also when the process was killed.

Exit codes: 0 the plan is done on all clusters, 1 it is not on one, 2 bad fleet, plan or usage, 5 the fleet is being run already,
129, 130 and 143 stopped by SIGHUP, SIGINT and SIGTERM.`,
		Example: `  kplan fleet run fleet.yaml
  kplan fleet run fleet.yaml --digest sha256:9f2c…
  kplan fleet plan fleet.yaml --plan-out rollout.json && kplan fleet run rollout.json
  kplan fleet run fleet.yaml --parallel 4 --progress plain`,
		Args:              oneFleet,
		ValidArgsFunction: fleetFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.inputs = addFleetInputs(cmd)
	cmd.Flags().StringVar(&o.digest, "digest", "", "run only the rollout that has this digest")
	cmd.Flags().StringVarP(&o.file, "fleet", "f", "", "the `file` of the fleet whose rollout is run (default: fleet.yaml beside it)")
	o.addRunning(cmd)
	return cmd
}

// addRunning registers the flags of all commands that run a fleet.
func (o *fleetRunOptions) addRunning(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&o.parallel, "parallel", 0, "how many clusters run at once, if that is less than their wave allows (default: as many as it allows)")
	flags.DurationVar(&o.lockWait, "lock-wait", 0, "wait this long on a cluster for another run of the plan to end (default: fail at once)")
	flags.StringSliceVar(&o.recordIn, "record-in", []string{inCluster}, "where the run on each cluster is recorded besides: in a Secret of the cluster, or none")
	complete(cmd, "record-in", inCluster, inNone)
	flags.BoolVar(&o.detach, "detach", false, "with the engine kubernetes, leave the run to the cluster and return")
	addProgress(cmd, &o.progress)
	flags.BoolVar(&o.stay, "stay", false, "keep the display open after the end of the run, until q")
	o.wanted = addFleetReports(cmd)
	o.addLogs(cmd)
	o.addFetching(cmd)
}

func (o *fleetRunOptions) check(args ...string) (err error) {
	if o.reports, err = parseFleetReports(*o.wanted); err != nil {
		return err
	}
	switch {
	case o.parallel < 0:
		return usagef("--parallel must not be negative")
	case o.lockWait < 0:
		return usagef("--lock-wait must not be negative")
	case o.file != "" && !isRollout(args):
		return usagef("--fleet is for a rollout")
	case len(o.recordIn) != 1 || o.recordIn[0] != inCluster && o.recordIn[0] != inNone:
		return usagef("--record-in must be %s or %s; the run of the fleet is always recorded beside its file", inCluster, inNone)
	}
	o.reports, err = parseFleetReports(*o.wanted)
	return err
}

func (o *fleetRunOptions) run(ctx context.Context, args []string) error {
	mode, err := o.mode(o.progress)
	if err == nil {
		err = o.check(args...)
	}
	if err != nil {
		return err
	}
	f, rollout, err := o.open(args, mode == ui.JSON || mode == ui.Quiet)
	if err != nil {
		return err
	}
	folder := record.FolderOf(f.Dir)
	id := ledger.NewRunID()
	lock, err := folder.Lock(f.Metadata.Name, holderOf(id))
	if err != nil {
		return err
	}
	defer lock.Release()
	ctx, signals := interrupt.Context(ctx)
	defer signals.Release()
	w := &fleetWork{fleetRunOptions: o, mode: mode, signals: signals, fleet: f, managed: o.managed(f)}
	rollout, bundle, err := w.freeze(ctx, rollout)
	if err != nil {
		return stopped(ctx, err)
	}
	switch {
	case f.Engine.Kubernetes != nil:
		return w.runInCluster(ctx, id, rollout, bundle)
	case w.detach:
		return usagef("--detach leaves the run to a cluster, and the engine of %s is not kubernetes", words.Clean(f.File))
	}
	in, err := w.given(bundle)
	if err != nil {
		return err
	}
	if w.record, err = folder.Begin(id, rollout, in); err != nil {
		return fmt.Errorf("keeping the run: %w", err)
	}
	return w.run(ctx)
}

// managed are the clusters that know of a fleet's clusters.
func (a *app) managed(f *fleetload.Fleet) *inventory.Management {
	return inventory.NewManagement(inventory.Options{Clusters: f.Clusters, Dir: f.Dir, Flags: a.flags, UserAgent: userAgent()})
}

// holderOf says who runs a fleet.
func holderOf(run string) record.Holder {
	return record.Holder{Run: run, By: runBy(run), PID: ledger.Self(run).PID, Since: time.Now().UTC()}
}

// isRollout reports whether a command line names a rollout and not a fleet file.
func isRollout(args []string) bool { return len(args) > 0 && filepath.Ext(args[0]) == ".json" }

// open reads the fleet file that a command line names, or the rollout and its fleet file.
func (o *fleetRunOptions) open(args []string, quiet bool) (*fleetload.Fleet, *fleet.Rollout, error) {
	var rollout *fleet.Rollout
	if isRollout(args) {
		b, err := os.ReadFile(args[0])
		if err == nil {
			err = json.Unmarshal(b, &rollout)
		}
		switch {
		case err != nil:
			return nil, nil, &usageError{err: fmt.Errorf("reading the rollout: %w", err)}
		case rollout.Version != fleet.RolloutVersion || !rollout.Sealed():
			return nil, nil, &usageError{err: fmt.Errorf("%s is no rollout of this version of kplan, or it was changed", words.Clean(args[0])), hint: "write it by: " + o.name + " fleet plan --plan-out"}
		}
		args = []string{cmp.Or(o.file, filepath.Join(filepath.Dir(args[0]), defaultFleet))}
	}
	path, err := o.chooseFleet(args, quiet)
	if err != nil {
		return nil, nil, err
	}
	f, err := o.loadFleet(path, *o.inputs)
	if err != nil {
		return nil, nil, &usageError{err: err}
	}
	if rollout != nil && (rollout.Fleet != f.Metadata.Name || rollout.Target != f.Plan.Cluster) {
		return nil, nil, usagef("the rollout is of fleet %s, and %s is fleet %s", rollout.Fleet, words.Clean(path), f.Metadata.Name)
	}
	return f, rollout, nil
}

// freeze returns the rollout that is run, with the plan's files: that which was given, or the
// fleet's as it is now. It refuses another one than was asked for.
func (w *fleetWork) freeze(ctx context.Context, given *fleet.Rollout) (*fleet.Rollout, *freeze.Bundle, error) {
	rollout, bundle, err := given, (*freeze.Bundle)(nil), error(nil)
	o := &fleetPlanOptions{app: w.app, inputs: w.inputs}
	if given != nil {
		bundle, err = freeze.BundleOf(ctx, given, w.fleet.PlanFile, o.values())
		if err == nil && bundle.Digest != given.Bundle {
			err = &usageError{err: errors.New("the plan's files have changed since the rollout was written"), hint: "look at it again by: " + w.name + " fleet plan"}
		}
	} else {
		var frozen *freeze.Frozen
		if frozen, err = o.frozen(ctx, w.fleet, w.managed); err == nil {
			rollout, bundle, w.withheld = frozen.Rollout, frozen.Bundle, frozen.Withheld
			if w.mode != ui.JSON && w.mode != ui.Quiet {
				o.tell(w.fleet, frozen, nil)
			}
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if w.digest != "" && w.digest != rollout.Digest {
		return nil, nil, &usageError{
			err:  fmt.Errorf("the rollout is %s by now, and not %s", rollout.Digest, w.digest),
			hint: "its clusters, their values or the plan's files have changed since: look at it again by: " + w.name + " fleet plan",
		}
	}
	return rollout, bundle, nil
}

// fleetFailedError says that the plan is not done on all clusters.
type fleetFailedError struct{ state fleet.State }

func (e *fleetFailedError) Error() string { return "the run of the fleet " + string(e.state) }

// outcome is the error of a run that is over.
func (w *fleetWork) outcome(ctx context.Context, x *fleet.Execution) error {
	switch state := x.Outcome(); {
	case x.Stop != nil && x.Stop.Kind == fleet.StopInterrupted && context.Cause(ctx) != nil:
		return context.Cause(ctx)
	case state == fleet.Succeeded:
		return nil
	default:
		return &fleetFailedError{state}
	}
}

// given are what the run was given, to be found again by who resumes it.
func (w *fleetWork) given(b *freeze.Bundle) (record.Inputs, error) {
	in := record.Inputs{Plan: w.fleet.PlanFile, Files: b.Sums()}
	var err error
	if in.Fleet, err = filepath.Abs(w.fleet.File); err != nil {
		return in, err
	}
	fleetSum, err := fileSum(in.Fleet)
	if err != nil {
		return in, err
	}
	in.Files[in.Fleet] = fleetSum
	in.Given, err = givenSum(*w.inputs)
	return in, err
}

// command is what a user types to have something done to the run.
func (w *fleetWork) command(verb string, args ...string) string {
	return w.fleetCommand(verb, w.fleet.File, append(args, w.record.ID)...)
}
