package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/fleetview"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/report"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tty"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/record"
)

// fleetReplayOptions are the flags of fleet replay.
type fleetReplayOptions struct {
	fleetRuns
	progress string
	speed    float64
	wanted   *[]string // values of --report
	shows    bool      // whether it was asked how to show it
}

func newFleetReplay(a *app) *cobra.Command {
	o := &fleetReplayOptions{fleetRuns: fleetRuns{app: a}}
	cmd := &cobra.Command{
		Use:   "replay [RUN | EVENTS.jsonl]",
		Short: "Show a fleet's run again",
		Long: `Show a recorded run of a fleet again, the newest one without RUN; or the events of one from a file, such as kplan fleet run --progress json wrote.

On a terminal the display plays it as its time passed: p pauses, + and - change the speed, Enter shows the run of a cluster, q leaves. Elsewhere it is
written at once, as --progress says. With --report it writes reports, and shows the run only if --progress or --speed is given too.`,
		Example: `  kplan fleet replay
  kplan fleet replay --speed 20
  kplan fleet replay events.jsonl --progress plain | less`,
		Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.shows = cmd.Flags().Changed("progress") || cmd.Flags().Changed("speed")
			return o.replay(cmd.Context(), first(args))
		},
	}
	addProgress(cmd, &o.progress)
	o.wanted = addFleetReports(cmd)
	cmd.Flags().Float64Var(&o.speed, "speed", 1, "on a terminal, play it so many times as fast as it was; 0 shows its end at once")
	o.addFleet(cmd)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		offers, _ := o.complete(cmd, args, typed)
		return offers, cobra.ShellCompDirectiveDefault
	}
	return cmd
}

func (o *fleetReplayOptions) replay(ctx context.Context, arg string) error {
	if o.speed < 0 {
		return usagef("--speed must not be negative")
	}
	mode, err := o.mode(o.progress)
	if err != nil {
		return err
	}
	files, err := parseFleetReports(*o.wanted)
	if err != nil {
		return err
	}
	run, events, err := o.events(arg)
	if err != nil {
		return err
	}
	if len(events) == 0 {
		return &usageError{err: errors.New("the run has no events")}
	}
	if events[len(events)-1].Type != fleet.TypeDone && mode != ui.JSON { // whose readers miss that event
		defer fmt.Fprintln(o.stderr, "warning: the events end before the run did: kplan was killed, or is still at work")
	}
	if len(files) > 0 {
		reports := reportsOf(files, clusterEvents(run))
		for _, e := range events {
			reports.Observe(e)
		}
		if err := reports.Close(); err != nil || !o.shows {
			return err
		}
	}
	options := fleetview.Options{Options: o.options(o.stderr)}
	if mode != ui.TTY {
		return fleetview.Play(mode, o.stderr, options, events)
	}
	c := o.fleetTerminal(options, clusterEvents(run), "")
	c.Speed = o.speed
	ctx, signals := interrupt.Context(ctx)
	defer signals.Release()
	c.Stopped = ctx.Done()
	return fleetview.PlayOn(c, events)
}

// events reads those of a recorded run, or of a file.
func (o *fleetReplayOptions) events(arg string) (*record.Run, []fleet.Event, error) {
	if eventsFile(arg) {
		events, err := record.ReadEvents(arg)
		if err != nil {
			return nil, nil, &usageError{err: err, hint: "kplan fleet run --progress json writes such events"}
		}
		return record.Beside(arg), events, nil
	}
	run, err := o.find(arg, false)
	if err != nil {
		return nil, nil, err
	}
	events, err := run.Events()
	return run, events, err
}

// fleetRenderer makes what shows a fleet's run on stderr, where nothing draws; for GitHub also
// what adds it to the step's summary.
func (a *app) fleetRenderer(m ui.Mode, o fleetview.Options) fleetview.Renderer {
	r := fleetview.New(m, a.stderr, o)
	if file := os.Getenv("GITHUB_STEP_SUMMARY"); m == ui.GitHub && file != "" {
		return &report.FleetSummarized{Renderer: r, File: file, Warnings: a.stderr, Version: readBuild().Version}
	}
	return r
}

// fleetTerminal says where the display of a fleet's run is, and how it looks. The mode TTY was
// chosen, so both streams are terminals. What it gives is to be used: a process waits for the
// end of the display. Hint is for those whose kplan was killed meanwhile.
func (a *app) fleetTerminal(o fleetview.Options, events fleetEvents, hint string) fleetview.Config {
	in, _ := a.stdin.(*os.File)
	out, _ := a.stderr.(*os.File)
	return fleetview.Config{
		Look: fleetview.Look{Colour: a.colour(out), Unicode: tty.Unicode(), Version: readBuild().Version},
		In:   in, Out: out, Standby: fleetview.NewStandby(out, o), Events: events, Returned: watchTerminal(in, out, hint),
	}
}

// fleetOrder keeps an order of the display where whoever runs the fleet finds it.
func fleetOrder(run *record.Run) func(fleetview.Order) error {
	return func(o fleetview.Order) error {
		_, err := run.Change(func(c *fleet.Control) {
			c.By = runBy(run.ID)
			switch o.Verb {
			case fleetview.Pause, fleetview.Resume:
				c.Paused = o.Verb == fleetview.Pause
			case fleetview.Approve:
				c.Approve(o.Wave)
			case fleetview.Abort:
				c.Aborted, c.Now = true, c.Now || o.Now
			}
		})
		if err != nil {
			return fmt.Errorf("keeping the order: %s", words.Line(err.Error()))
		}
		return nil
	}
}
