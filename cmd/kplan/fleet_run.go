package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
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
	progress string
	lockWait time.Duration
	recordIn []string
}

func newFleetRun(a *app) *cobra.Command {
	o := &fleetRunOptions{app: a}
	cmd := &cobra.Command{
		Use:   "run [FLEET]",
		Short: "Run a plan on all clusters of a fleet",
		Long: `Run the plan of a fleet file on all of its clusters, wave by wave. Without FLEET that is fleet.yaml of the current folder.

First the fleet is frozen: which clusters there are, in which waves, with which values, and which files the plan is. --digest refuses to run
anything else than what 'kplan fleet plan' has shown.

A cluster that fails stops no other one. Once more have failed than a wave or the budget allows, nothing new starts, and what is at work goes on to
its end. A cluster whose requests are held for a webhook has not failed.

What happens is kept in .kplan/fleets beside the fleet file. 'kplan fleet status' shows how the run stands, pause, resume, abort and approve give
it orders, from any terminal. The first ^C or SIGTERM starts nothing new and tells what is at work to stop, as it does with 'kplan run'; the second
aborts at once. 'kplan fleet resume' goes on with what is unfinished, also when the process was killed.

Exit codes: 0 the plan is done on all clusters, 1 it is not on one, 2 bad fleet, plan or usage, 5 the fleet is being run already,
129, 130 and 143 stopped by SIGHUP, SIGINT and SIGTERM.`,
		Example: `  kplan fleet run fleet.yaml
  kplan fleet run fleet.yaml --digest sha256:9f2c…
  kplan fleet run fleet.yaml --parallel 4 --progress plain`,
		Args:              oneFleet,
		ValidArgsFunction: fleetFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.inputs = addFleetInputs(cmd)
	cmd.Flags().StringVar(&o.digest, "digest", "", "run only the rollout that has this digest")
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
	addProgress(cmd, &o.progress)
	o.addLogs(cmd)
	o.addFetching(cmd)
}

func (o *fleetRunOptions) check() error {
	switch {
	case o.parallel < 0:
		return usagef("--parallel must not be negative")
	case o.lockWait < 0:
		return usagef("--lock-wait must not be negative")
	case len(o.recordIn) != 1 || o.recordIn[0] != inCluster && o.recordIn[0] != inNone:
		return usagef("--record-in must be %s or %s; the run of the fleet is always recorded beside its file", inCluster, inNone)
	}
	return nil
}

func (o *fleetRunOptions) run(ctx context.Context, args []string) error {
	mode, err := o.mode(o.progress)
	if err == nil {
		err = o.check()
	}
	if err != nil {
		return err
	}
	path, err := o.chooseFleet(args, mode == ui.JSON || mode == ui.Quiet)
	if err != nil {
		return err
	}
	f, err := o.loadFleet(path, *o.inputs)
	if err != nil {
		return &usageError{err: err}
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
	frozen, err := w.freeze(ctx)
	if err != nil {
		return stopped(ctx, err)
	}
	if frozen.Engine != "local" {
		return usagef("this kplan runs fleets in its own process only, and the file's engine is %s", frozen.Engine)
	}
	in, err := w.given(frozen.Bundle)
	if err != nil {
		return err
	}
	if w.record, err = folder.Begin(id, frozen.Rollout, in); err != nil {
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

// freeze finds the clusters of the fleet and freezes it, and refuses another rollout than was
// asked for.
func (w *fleetWork) freeze(ctx context.Context) (*freeze.Frozen, error) {
	found, err := w.managed.Find(ctx, w.fleet.Inventory)
	if err != nil {
		return nil, err
	}
	values := *w.inputs
	values.Decrypter = w.keys
	kubeconfigs := inventory.Kubeconfigs{Management: w.managed}
	frozen, err := freeze.Freeze(ctx, freeze.Input{Fleet: w.fleet, Found: found, Values: values, Kubeconfig: kubeconfigs.Read})
	if err != nil {
		return nil, err
	}
	for _, text := range frozen.Warnings {
		w.tell("warning: " + text)
	}
	for _, n := range frozen.Notes {
		w.tell("note: " + n.String())
	}
	if w.digest != "" && w.digest != frozen.Digest {
		return nil, &usageError{
			err:  fmt.Errorf("the rollout is %s by now, and not %s", frozen.Digest, w.digest),
			hint: "its clusters, their values or the plan's files have changed since: look at it again by: " + w.name + " fleet plan",
		}
	}
	return frozen, nil
}

// tell says something to people before the run starts.
func (w *fleetWork) tell(text string) {
	if w.mode != ui.JSON && w.mode != ui.Quiet {
		fmt.Fprintln(w.stderr, w.oneLine(text))
	}
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
	text := w.name + " fleet " + verb
	for _, arg := range append(args, w.record.ID) {
		text += " " + words.Clean(arg)
	}
	return text
}
