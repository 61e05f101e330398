package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/fleetview"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/report"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes"
	"github.com/kplan-dev/kplan/fleet/freeze"
	"github.com/kplan-dev/kplan/runner"
)

// runInCluster runs a frozen fleet by Jobs of its management cluster.
func (w *fleetWork) runInCluster(ctx context.Context, id string, rollout *fleet.Rollout, bundle *freeze.Bundle) error {
	store, err := storeOf(ctx, w.managed, w.fleet.Engine.Kubernetes)
	if err == nil {
		err = store.Check(ctx, kubernetes.ToBegin)
	}
	if err != nil {
		return stopped(ctx, err)
	}
	spec, archive, err := w.specOf(ctx, id, rollout, bundle)
	if err != nil {
		return stopped(ctx, err)
	}
	run, err := store.Create(ctx, spec, archive)
	if err != nil {
		return stopped(ctx, err)
	}
	at := &fleetRemote{app: w.app, Run: run, store: store, file: w.fleet.File}
	if w.detach {
		return at.detached(ctx)
	}
	return at.attach(ctx, w.mode, w.reports, w.signals)
}

// detached leaves the run to a driver in the cluster.
func (r *fleetRemote) detached(ctx context.Context) error {
	if err := r.MakeDriver(ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintf(r.stdout, "run %s goes on in the cluster; look at it by: %s\n", r.Spec.Run, r.command("attach"))
	return err
}

// attach shows a run until it is over, and drives it unless a driver in the cluster does. The
// end of ctx leaves it to such a driver.
func (r *fleetRemote) attach(ctx context.Context, mode ui.Mode, files []report.File, signals *interrupt.Signals) error {
	orders, err := r.Orders(ctx)
	if err != nil {
		return stopped(ctx, err)
	}
	d := kubernetes.Driver{Run: r.Run, Watch: r.HasDriver(ctx, orders.Round)}
	if want := kubernetes.ToDrive; !d.Watch {
		if err := r.store.Check(ctx, want); err != nil {
			return stopped(ctx, err)
		}
	}
	renderer, inner := r.show(ctx, mode, signals)
	if d, is := renderer.(*fleetview.Display); is {
		defer d.Release() // also when the run panics
	}
	reports := reportsOf(files, r.events(ctx))
	d.Observe = func(e fleet.Event) {
		reports.Observe(e)
		renderer.Observe(e)
	}
	if r.store.Check(ctx, kubernetes.ToRead) == nil {
		d.Inner = inner
	}
	x, err := d.Do(ctx)
	late := reports.Close()
	if e := renderer.Close(); e != nil {
		err = errors.Join(err, fmt.Errorf("writing progress: %w", e))
	}
	switch {
	case context.Cause(ctx) != nil:
		r.leave(ctx, mode, d.Watch)
		return stopped(ctx, err)
	case err != nil:
		return err
	}
	return errors.Join(fleetOutcome(x, mode), late)
}

// show makes what shows the run, and takes the events of its clusters' own runs.
func (r *fleetRemote) show(ctx context.Context, mode ui.Mode, signals *interrupt.Signals) (fleetview.Renderer, func(string, runner.Event)) {
	o := fleetview.Options{Options: r.options(r.stderr), Command: r.command}
	if mode != ui.TTY {
		return r.fleetRenderer(mode, o), func(string, runner.Event) {}
	}
	c := r.fleetTerminal(o, r.events(ctx), "look at it again: "+r.command("attach"))
	c.Orders, c.Detached, c.Order = true, true, r.orders(ctx)
	c.Stop, c.Stopped, c.Aborted = signals.Interrupt, ctx.Done(), signals.Abort
	d := fleetview.Open(c)
	return d, d.Inner
}

// events reads what happened in the run of a cluster from the log of its worker.
func (r *fleetRemote) events(ctx context.Context) fleetEvents {
	return func(cluster string) ([]runner.Event, error) { return r.Log(ctx, cluster) }
}

// report writes reports of the run as it is now.
func (r *fleetRemote) report(ctx context.Context, files []report.File) error {
	reports := reportsOf(files, r.events(ctx))
	if _, err := (&kubernetes.Driver{Run: r.Run, Once: true, Observe: reports.Observe}).Do(ctx); err != nil {
		return err
	}
	return reports.Close()
}

// fleetOutcome is the error of a run that is over.
func fleetOutcome(x *fleet.Execution, mode ui.Mode) error {
	state := x.Outcome()
	if state == fleet.Succeeded {
		return nil
	}
	if err := error(&fleetFailedError{state}); !mode.Reports() {
		return err
	}
	return shown(&fleetFailedError{state})
}

// leave lets a run go on without this process, and says how to come back.
func (r *fleetRemote) leave(ctx context.Context, mode ui.Mode, driven bool) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), 10*time.Second, errors.New("the management cluster does not answer"))
	defer cancel()
	goes := "goes on in the cluster"
	if !driven {
		if err := r.MakeDriver(ctx); err != nil {
			goes = fmt.Sprintf("comes to the end of its wave, and the next one begins when somebody attaches (there is no driver in the cluster: %v)", err)
		}
	}
	if mode != ui.Quiet && mode != ui.JSON {
		fmt.Fprintf(r.stderr, "run %s %s\n  look at it: %s\n  stop it: %s\n", r.Spec.Run, r.oneLine(goes), r.command("attach"), r.command("abort"))
	}
}

func newFleetAttach(a *app) *cobra.Command {
	runs := &fleetRuns{app: a}
	progress, wanted := "", (*[]string)(nil)
	cmd := &cobra.Command{
		Use:   "attach [RUN]",
		Short: "Look at a fleet's run in a management cluster until it is over",
		Long: `Look at a run that goes on in the management cluster of the fleet file's engine: at what happened before, and then at what happens. Without RUN
it is the newest one of the fleet. Where there is no fleet file, --namespace says where the run is.

If no driver in the cluster lets the waves go, this process does. ^C leaves the run going.

Exit codes: those of 'kplan fleet run'.`,
		Example: `  kplan fleet attach
  kplan fleet attach 20261122-161030-3a12cd --context mgmt --namespace kplan`,
		Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			mode, err := a.mode(progress)
			if err != nil {
				return err
			}
			files, err := parseFleetReports(*wanted)
			if err != nil {
				return err
			}
			ctx, signals := interrupt.Context(cmd.Context())
			defer signals.Release()
			at, err := runs.remote(ctx, first(args), kubernetes.ToLook)
			switch {
			case err != nil:
				return stopped(ctx, err)
			case at == nil:
				return &usageError{err: errors.New("the fleet's runs are not in a cluster"), hint: a.name + " fleet status --watch looks at one of this machine"}
			}
			return at.attach(ctx, mode, files, signals)
		},
	}
	addProgress(cmd, &progress)
	wanted = addFleetReports(cmd)
	runs.addFleet(cmd)
	return cmd
}
