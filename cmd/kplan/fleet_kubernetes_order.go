package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/fleetview"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes"
)

// orElse is err, or what do returns if there is none.
func orElse(err error, do func() error) error {
	if err != nil {
		return err
	}
	return do()
}

// say tells that an order was given, and whether somebody follows it.
func (r *fleetRemote) say(format string, args ...any) error {
	_, err := fmt.Fprintf(r.stdout, "run %s %s\n", r.Spec.Run, fmt.Sprintf(format, args...))
	return err
}

// pause lets the run start nothing new.
func (r *fleetRemote) pause(ctx context.Context) error {
	if err := r.Pause(ctx, runBy(string(r.Spec.Run))); err != nil {
		return err
	}
	return r.say("starts nothing new; what is at work goes on to its end. Go on with it by: %s", r.command("resume"))
}

// approve lets a wave begin.
func (r *fleetRemote) approve(ctx context.Context, wave string) error {
	wave, err := r.Approve(ctx, wave, runBy(string(r.Spec.Run)))
	if err != nil {
		return err
	}
	return r.say("may begin wave %s%s", words.Clean(wave), r.undriven(ctx))
}

// undriven says that no driver in the cluster follows orders. A client that looks at the run
// may.
func (r *fleetRemote) undriven(ctx context.Context) string {
	if o, err := r.Orders(ctx); err != nil || r.HasDriver(ctx, o.Round) {
		return ""
	}
	return "; it has no driver in the cluster: unless somebody is attached, attach by: " + r.command("attach")
}

// abort lets the run start nothing any more. With now it waits until what is at work has
// stopped, so that what became of it is not lost.
func (r *fleetRemote) abort(ctx context.Context, now bool) error {
	if err := r.Abort(ctx, now, runBy(string(r.Spec.Run))); err != nil {
		return err
	}
	if !now {
		return r.say("is aborted: what is at work goes on to its end%s", r.undriven(ctx))
	}
	within := time.Duration(r.Grace)*time.Second + time.Minute
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("workers are still at work after %s", within))
	defer cancel()
	if _, err := (&kubernetes.Driver{Run: r.Run}).Do(ctx); err != nil {
		return err
	}
	return r.say("is aborted, and its workers have stopped; do what is left by: %s", r.command("resume"))
}

// resume goes on with the run: with a paused one, or with what is unfinished.
func (r *fleetRemote) resume(ctx context.Context, o *fleetRunOptions, mode ui.Mode, signals *interrupt.Signals) error {
	if err := r.store.Check(ctx, kubernetes.ToBegin); err != nil {
		return err
	}
	done, err := r.Resume(ctx, runBy(string(r.Spec.Run)))
	if err != nil {
		return err
	}
	orders, err := r.Orders(ctx)
	switch {
	case err != nil:
		return err
	case done.Paused && r.HasDriver(ctx, orders.Round):
		return r.say("goes on")
	case o.detach:
		return r.detached(ctx)
	}
	return r.attach(ctx, mode, o.reports, signals)
}

// orders gives the run the orders of a display.
func (r *fleetRemote) orders(ctx context.Context) func(fleetview.Order) error {
	by := runBy(string(r.Spec.Run))
	return func(o fleetview.Order) (err error) {
		switch o.Verb {
		case fleetview.Pause:
			err = r.Pause(ctx, by)
		case fleetview.Resume:
			_, err = r.Resume(ctx, by)
		case fleetview.Approve:
			_, err = r.Approve(ctx, o.Wave, by)
		case fleetview.Abort:
			err = r.Abort(ctx, o.Now, by)
		}
		if err != nil {
			return fmt.Errorf("giving the order: %s", words.Line(err.Error()))
		}
		return nil
	}
}

// look reads how the run stands now.
func (r *fleetRemote) look(ctx context.Context) (*fleet.Execution, error) {
	return (&kubernetes.Driver{Run: r.Run, Once: true}).Do(ctx)
}

// status shows how the run stands, or tells what happens until it is over.
func (r *fleetRemote) status(ctx context.Context, o *fleetStatusOptions) (*fleet.Execution, error) {
	if !o.watch {
		x, err := r.look(ctx)
		if err != nil {
			return nil, err
		}
		return x, o.writeRun(string(r.Spec.Run), x, true)
	}
	v := o.viewer()
	d := kubernetes.Driver{Run: r.Run, Watch: true, Observe: v.Observe}
	x, err := d.Do(ctx)
	return x, errors.Join(err, v.Close())
}
