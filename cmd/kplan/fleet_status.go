package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/fleetview"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes"
	"github.com/kplan-dev/kplan/fleet/record"
)

// fleetStatusOptions are the flags of fleet status.
type fleetStatusOptions struct {
	fleetRuns
	output data.Format
	watch  bool
}

func newFleetStatus(a *app) *cobra.Command {
	o := &fleetStatusOptions{fleetRuns: fleetRuns{app: a}, output: formatTable}
	cmd := &cobra.Command{
		Use:   "status [RUN]",
		Short: "Show how a fleet's run stands",
		Long: `Show how a run of a fleet stands: its waves, what failed by cause, and what waits for webhooks. Without RUN it is the newest one.
With --watch it is told what happens from the beginning, until the run is over.

Exit codes: 0 nothing has failed, 1 a cluster has, or the run was stopped, 2 bad usage.`,
		Example: `  kplan fleet status
  kplan fleet status --watch
  kplan fleet status -o json | jq '.clusters[] | select(.state == "failed")'`,
		Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), first(args)) },
	}
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "tell what happens until the run is over")
	addFormat(cmd, &o.output, "how to write it: table, json or yaml", formatTable, data.JSON, data.YAML)
	o.addFleet(cmd)
	return cmd
}

func (o *fleetStatusOptions) run(ctx context.Context, run string) error {
	if o.watch && o.output == data.YAML {
		return usagef("--watch cannot write yaml, only table and json")
	}
	ctx, signals := interrupt.Context(ctx)
	defer signals.Release()
	if at, err := o.remote(ctx, run, kubernetes.ToLook); at != nil || err != nil {
		return orElse(err, func() error {
			x, err := at.status(ctx, o)
			if err != nil {
				return stopped(ctx, err)
			}
			return standsWell(x)
		})
	}
	found, err := o.find(run, false)
	if err != nil {
		return err
	}
	var x *fleet.Execution
	if o.watch {
		x, err = o.follow(ctx, found)
	} else {
		x, err = found.Execution()
	}
	if err != nil {
		return stopped(ctx, err)
	}
	if !o.watch {
		if err := o.write(found, x); err != nil {
			return err
		}
	}
	return standsWell(x)
}

// standsWell returns an error, which was shown, when a cluster failed or the run was stopped.
func standsWell(x *fleet.Execution) error {
	if x.State == fleet.Failed || x.State == fleet.Cancelled || x.Counts()[fleet.Failed] > 0 {
		return shown(&fleetFailedError{x.State})
	}
	return nil
}

// viewer tells what happens, to stdout.
func (o *fleetStatusOptions) viewer() fleetview.Renderer {
	mode := ui.Plain
	if o.output == data.JSON {
		mode = ui.JSON
	}
	return fleetview.New(mode, o.stdout, fleetview.Options{Options: o.options(o.stdout)})
}

// follow tells what happens until the run is over.
func (o *fleetStatusOptions) follow(ctx context.Context, run *record.Run) (*fleet.Execution, error) {
	r := o.viewer()
	x, err := run.Follow(ctx, func(e fleet.Event) { r.Observe(e) }, func() bool { return o.folder().Active(run.Rollout.Fleet) != nil })
	if e := r.Close(); err == nil {
		err = e
	}
	return x, err
}

// fleetStanding is how a run stands, for programs.
type fleetStanding struct {
	Run     string              `json:"run"`
	Fleet   string              `json:"fleet"`
	Plan    string              `json:"plan"`
	Digest  string              `json:"digest"`
	Engine  string              `json:"engine"`
	By      string              `json:"by,omitempty"`
	Round   int                 `json:"round"`
	State   fleet.State         `json:"state"`
	Active  bool                `json:"active"`
	Started time.Time           `json:"started"`
	Last    time.Time           `json:"last"`
	Counts  map[fleet.State]int `json:"counts"`
	Control fleet.Control       `json:"control"`
	Stop    *fleet.Stop         `json:"stop,omitempty"`

	Waves    []fleetWaveStanding    `json:"waves"`
	Clusters []fleetClusterStanding `json:"clusters"`
	Failures []fleetGroup           `json:"failures"`
	Holds    []fleetGroup           `json:"holds"`
}

type fleetWaveStanding struct {
	fleet.WaveInfo
	State  fleet.WaveState     `json:"state"`
	Until  time.Time           `json:"until,omitzero"`
	Counts map[fleet.State]int `json:"counts"`
}

type fleetClusterStanding struct {
	fleet.ClusterInfo
	State    fleet.State     `json:"state"`
	Attempt  int             `json:"attempt,omitempty"`
	Progress *fleet.Progress `json:"progress,omitempty"`
	Hold     *fleet.Hold     `json:"hold,omitempty"`
	Result   *fleet.Result   `json:"result,omitempty"`
}

type fleetGroup struct {
	Cause    *fleet.Cause `json:"cause,omitempty"`
	Hold     *fleet.Hold  `json:"hold,omitempty"`
	Clusters []string     `json:"clusters"`
}

// standingOf is how a run stands.
func standingOf(run string, x *fleet.Execution, active bool) fleetStanding {
	s := fleetStanding{
		Run: run, Fleet: x.First.Fleet, Plan: x.First.Plan, Digest: x.First.Digest, Engine: x.First.Engine, By: x.First.By,
		Round: x.Round, State: x.State, Active: active, Started: x.Started, Last: x.Last, Counts: x.Counts(), Control: x.Control, Stop: x.Stop,
		Waves: []fleetWaveStanding{}, Clusters: []fleetClusterStanding{}, Failures: fleetGroups(x.Failures()), Holds: fleetGroups(x.Holds()),
	}
	for _, w := range x.Waves {
		s.Waves = append(s.Waves, fleetWaveStanding{w.WaveInfo, w.State, w.Until, w.Counts()})
	}
	for _, c := range x.Clusters {
		at := fleetClusterStanding{ClusterInfo: c.ClusterInfo, State: c.State, Attempt: c.Attempt, Hold: c.Hold, Result: c.Result}
		if c.State.Active() {
			at.Progress = &c.Progress
		}
		s.Clusters = append(s.Clusters, at)
	}
	return s
}

func fleetGroups(all []fleet.Group) []fleetGroup {
	out := []fleetGroup{}
	for _, g := range all {
		names := make([]string, len(g.Clusters))
		for i, c := range g.Clusters {
			names[i] = c.Name
		}
		out = append(out, fleetGroup{g.Cause, g.Hold, names})
	}
	return out
}

// write writes how a run stands.
func (o *fleetStatusOptions) write(run *record.Run, x *fleet.Execution) error {
	at := o.folder().Active(x.First.Fleet)
	return o.writeRun(run.ID, x, at != nil && at.Run == run.ID)
}

// writeRun writes how a run stands; active says that somebody runs it.
func (o *fleetStatusOptions) writeRun(run string, x *fleet.Execution, active bool) error {
	if o.output != formatTable {
		return o.print(o.output, standingOf(run, x, active))
	}
	var b strings.Builder
	state := string(x.State)
	if x.State == fleet.Running && !active {
		state = "unfinished, and nobody runs it"
	}
	fmt.Fprintf(&b, "fleet %s, run %s: %s\n", x.First.Fleet, run, state)
	b.WriteString(words.Table(fleetview.WaveRows(x), nil))
	for _, g := range x.Failures() {
		fmt.Fprintf(&b, "%s failed: %s\n  %s\n", words.Count(len(g.Clusters), "cluster"), o.oneLine(fleetview.CauseText(g.Cause)), words.Clean(fleetview.Names(g.Clusters)))
	}
	for _, g := range x.Holds() {
		fmt.Fprintf(&b, "%s\n", o.oneLine(fleetview.HoldText(g)))
	}
	switch {
	case x.Stop != nil:
		fmt.Fprintf(&b, "nothing new starts: %s\n", o.oneLine(fleetview.StopText(x.Stop)))
	case x.Control.Paused && x.State == fleet.Running:
		fmt.Fprintf(&b, "nothing new starts: paused%s\n", words.Prefixed(" by ", o.oneLine(x.Control.By)))
	}
	_, err := io.WriteString(o.stdout, b.String())
	return err
}
