package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/report"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// replayOptions are the flags of replay.
type replayOptions struct {
	*app
	progress string
	speed    float64
	wanted   *[]string // values of --report
	shows    bool      // whether it was asked how to show it
}

func newReplay(a *app) *cobra.Command {
	o := &replayOptions{app: a}
	cmd := &cobra.Command{
		Use:   "replay RUN.jsonl",
		Short: "Show a recorded run again",
		Long: `Show a run that kplan run --record wrote, without a cluster.

On a terminal the display plays it as its time passed: p pauses, + and - change the speed, q leaves. Elsewhere it is written at once, as
--progress says. A record that ends early, because kplan was killed, is shown as far as it goes.
With --report it writes reports, and shows the run only if --progress, --logs or --speed is given too.`,
		Example: `  kplan run plan.yaml --record run.jsonl
  kplan replay run.jsonl --speed 8
  kplan replay run.jsonl --speed 0
  kplan replay run.jsonl --progress plain | less
  kplan replay run.jsonl --report html=run.html`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("name one record: kplan replay RUN.jsonl")
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"jsonl"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.shows = cmd.Flags().Changed("progress") || cmd.Flags().Changed("speed") || cmd.Flags().Changed("logs")
			return o.replay(cmd.Context(), args[0])
		},
	}
	addProgress(cmd, &o.progress)
	o.addLogs(cmd)
	o.wanted = addReports(cmd)
	cmd.Flags().Float64Var(&o.speed, "speed", 1, "on a terminal, play it so many times as fast as it was; 0 shows its end at once")
	return cmd
}

func (o *replayOptions) replay(ctx context.Context, path string) error {
	if o.speed < 0 {
		return usagef("--speed must not be negative")
	}
	mode, err := o.drawn(o.progress)
	if err != nil {
		return err
	}
	reports, err := parseReports(*o.wanted)
	if err != nil {
		return err
	}
	if err := spareReports(reports, []plan.Read{{Path: path, What: "the record"}}); err != nil {
		return err
	}
	events, err := readRecord(path)
	if err != nil {
		return &usageError{err: err, hint: "kplan run --record FILE writes such a file"}
	}
	if events[len(events)-1].Type != runner.TypeDone && mode != ui.JSON { // whose readers miss that event
		defer fmt.Fprintf(o.stderr, "warning: %s ends before its run did: kplan was killed, or is still at work\n", words.Clean(path))
	}
	if len(reports) > 0 {
		r := &reporter{files: reports, meta: report.Meta{Version: readBuild().Version, Record: path}}
		if err := r.again(events); err != nil || !o.shows {
			return err
		}
	}
	if mode != ui.TTY {
		return ui.Play(o.stderr, mode, o.options(o.stderr), events)
	}
	c := o.terminal("")
	c.Speed = o.speed
	ctx, _, _, release := stoppable(ctx)
	defer release()
	c.Stopped = ctx.Done()
	return tui.Play(c, events)
}

// readRecord reads the events of a recorded run. A last line that was not written
// to its end is left out.
func readRecord(path string) ([]runner.Event, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var (
		events []runner.Event
		bad    error
	)
	lines := bufio.NewReader(f)
	for n, end := 1, error(nil); end == nil; n++ {
		var line []byte
		if line, end = lines.ReadBytes('\n'); end != nil && !errors.Is(end, io.EOF) {
			return nil, fmt.Errorf("reading %s: %w", path, end)
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if bad != nil { // it was not the last
			return nil, bad
		}
		var e runner.Event
		if err := json.Unmarshal(line, &e); err != nil {
			bad = fmt.Errorf("%s:%d is not an event of a run: %w", path, n, err)
			continue
		}
		if bad = dated(path, n, e, events); bad != nil {
			return nil, bad
		}
		events = append(events, e)
	}
	switch {
	case len(events) == 0 && bad != nil:
		return nil, bad
	case len(events) == 0:
		return nil, fmt.Errorf("%s has no events", path)
	case events[0].Type != runner.TypePlan:
		return nil, fmt.Errorf("%s:1 is not the first event of a run, which is of type %s", path, runner.TypePlan)
	case events[0].Version > runner.EventVersion:
		return nil, fmt.Errorf("%s has events of version %d, and this kplan knows them up to %d", path, events[0].Version, runner.EventVersion)
	}
	return events, nil
}

// longestGap is how long a run may say nothing: a step's timeout is far below.
const longestGap = 7 * 24 * time.Hour

// dated tells what is wrong with the time of an event that comes after others: what
// shows a run counts the seconds between them.
func dated(path string, line int, e runner.Event, before []runner.Event) error {
	if e.Time.IsZero() {
		return fmt.Errorf("%s:%d has no time", path, line)
	}
	if len(before) == 0 {
		return nil
	}
	if last := before[len(before)-1].Time; e.Time.Sub(last).Abs() > longestGap {
		return fmt.Errorf("%s:%d is of %s, and the line before of %s", path, line, e.Time.Format(time.RFC3339), last.Format(time.RFC3339))
	}
	return nil
}
