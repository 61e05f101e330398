package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/report"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
)

// replayOptions are the flags of replay.
type replayOptions struct {
	*app
	progress string
	speed    float64
	inputs   *load.Options
	from     *[]string
	wanted   *[]string // values of --report
	shows    bool      // whether it was asked how to show it
}

func newReplay(a *app) *cobra.Command {
	o := &replayOptions{app: a}
	cmd := &cobra.Command{
		Use:   "replay RUN.jsonl | PLAN [RUN]",
		Short: "Show a recorded run again",
		Long: `Show a run that kplan run --record wrote, without a cluster; or the run of a plan that kplan history lists: RUN is the beginning of its ID,
without it the newest is meant. Records of a cluster have no logs of pods.

On a terminal the display plays it as its time passed: p pauses, + and - change the speed, q leaves. Elsewhere it is written at once, as
--progress says. A record that ends early, because kplan was killed, is shown as far as it goes.
With --report it writes reports, and shows the run only if --progress, --logs or --speed is given too.`,
		Example: `  kplan run plan.yaml --record run.jsonl
  kplan replay run.jsonl --speed 8
  kplan replay run.jsonl --speed 0
  kplan replay run.jsonl --progress plain | less
  kplan replay run.jsonl --report html=run.html
  kplan replay run.jsonl --report otlp=http://localhost:4318
  kplan replay plan.yaml
  kplan replay plan.yaml 20261122-161030 --report html=run.html`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) < 1:
				return fmt.Errorf("name one record: kplan replay RUN.jsonl")
			case len(args) > 2:
				return fmt.Errorf("one run only: kplan replay PLAN RUN")
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"jsonl", "yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.shows = cmd.Flags().Changed("progress") || cmd.Flags().Changed("speed") || cmd.Flags().Changed("logs")
			return o.replay(cmd.Context(), args)
		},
	}
	addProgress(cmd, &o.progress)
	o.addLogs(cmd)
	o.inputs, o.from = addInputs(cmd), addRecordedIn(cmd)
	o.wanted = addReports(cmd)
	cmd.Flags().Float64Var(&o.speed, "speed", 1, "on a terminal, play it so many times as fast as it was; 0 shows its end at once")
	return cmd
}

func (o *replayOptions) replay(ctx context.Context, args []string) error {
	path := args[0]
	if o.speed < 0 {
		return usagef("--speed must not be negative")
	}
	mode, err := o.mode(o.progress)
	if err != nil {
		return err
	}
	reports, err := parseReports(*o.wanted)
	if err != nil {
		return err
	}
	if err := refuseReportsOver(reports, []plan.Read{{Path: path, What: "the record"}}); err != nil {
		return err
	}
	events, err := o.events(ctx, args)
	if err != nil {
		return err
	}
	if events[len(events)-1].Type != runner.TypeDone && mode != ui.JSON { // whose readers miss that event
		defer fmt.Fprintf(o.stderr, "warning: %s ends before its run did: kplan was killed, or is still at work\n", words.Clean(path))
	}
	if len(reports) > 0 {
		r := &report.Files{Files: reports, Meta: report.Meta{Version: readBuild().Version, Record: path, Getenv: os.Getenv}}
		for _, e := range events {
			r.Observe(e)
		}
		if err := errors.Join(r.Close(), r.Send(ctx)); err != nil || !o.shows {
			return err
		}
	}
	if mode != ui.TTY {
		return ui.Play(o.stderr, mode, o.options(o.stderr), events)
	}
	c := o.terminal("")
	c.Speed = o.speed
	ctx, signals := interrupt.Context(ctx)
	defer signals.Release()
	c.Stopped = ctx.Done()
	return tui.Play(c, events)
}

// events reads those of the run that the arguments name: a file of them, or a plan.
func (o *replayOptions) events(ctx context.Context, args []string) ([]runner.Event, error) {
	if ext := filepath.Ext(args[0]); len(args) == 1 && ext != ".yaml" && ext != ".yml" {
		events, err := ledger.ReadEvents(args[0])
		if err != nil {
			return nil, &usageError{err: err, hint: "kplan run --record FILE writes such a file"}
		}
		return events, nil
	}
	p, store, err := o.recorded(ctx, args[0], *o.inputs, *o.from)
	if err != nil {
		return nil, err
	}
	id := ""
	if len(args) == 2 {
		id = args[1]
	}
	_, r, err := store.Find(ctx, p.Metadata.Name, id)
	if err != nil {
		return nil, noRun(err)
	}
	if len(r.Events) == 0 {
		return nil, fmt.Errorf("the record of run %s has no events: there were too many for the cluster", r.Run)
	}
	return r.Events, nil
}
