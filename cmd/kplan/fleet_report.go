package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/outfile"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/report"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes"
	"github.com/kplan-dev/kplan/fleet/record"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/runner"
)

func newFleetReport(a *app) *cobra.Command {
	runs := &fleetRuns{app: a}
	var wanted *[]string
	cmd := &cobra.Command{
		Use:   "report [RUN]",
		Short: "Write reports of a fleet's run",
		Long: `Write reports of a run of a fleet: the newest one without RUN. A run that goes on is reported as far as it has come.

html=FOLDER makes a page of the fleet, index.html, and beside it one for each cluster whose own run is recorded; html=FILE the page of the fleet alone.
junit has a test suite for each cluster with a test case for each step. json is for programs: what it does not name run is the same on whatever engine
the same rollout came to the same. markdown is a summary.`,
		Example: `  kplan fleet report --report html=report
  kplan fleet report --report junit=fleet.xml --report json=fleet.json
  kplan fleet report 20261125-020000-5f0c --report markdown=/dev/stdout`,
		Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(*wanted) == 0 {
				return &usageError{err: fmt.Errorf("no report is asked for"), hint: "such as: --report html=report"}
			}
			files, err := parseFleetReports(*wanted)
			if err != nil {
				return err
			}
			if at, err := runs.remote(cmd.Context(), first(args), kubernetes.ToLook); at != nil || err != nil {
				return orElse(err, func() error { return at.report(cmd.Context(), files) })
			}
			run, err := runs.find(first(args), false)
			if err != nil {
				return err
			}
			return reportsOf(files, clusterEvents(run)).of(run)
		},
	}
	wanted = addFleetReports(cmd)
	runs.addFleet(cmd)
	return cmd
}

// addFleetReports registers --report for a fleet.
func addFleetReports(cmd *cobra.Command) *[]string {
	var flags []string
	cmd.Flags().StringArrayVar(&flags, "report", nil, "write a report of the run when it is over, as `kind=file`: html, junit, markdown or json; html=folder has a page of each cluster too; may be repeated")
	completeBy(cmd, "report", func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		var offers []string
		for _, k := range report.FleetKinds {
			if strings.HasPrefix(typed, string(k)+"=") {
				return []string{string(k) + "=fleet" + k.Ext()}, cobra.ShellCompDirectiveDefault
			}
			offers = append(offers, string(k)+"=")
		}
		return offers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
	return &flags
}

// parseFleetReports reads the values of --report. Every report needs a file of its own.
func parseFleetReports(flags []string) ([]report.File, error) {
	var all []report.File
	for _, flag := range flags {
		next, err := report.ParseFleetFile(flag)
		if err != nil {
			return nil, &usageError{err: err}
		}
		for _, other := range all {
			if outfile.Same(next.Path, other.Path) {
				return nil, &usageError{err: fmt.Errorf("%s and %s are the same file", other, next), hint: "name another file"}
			}
		}
		all = append(all, next)
	}
	return all, nil
}

// fleetReports are reports of a fleet's run.
type fleetReports struct{ *report.FleetFiles }

// fleetEvents reads the events of a cluster's own run.
type fleetEvents = func(cluster string) ([]runner.Event, error)

func reportsOf(files []report.File, events fleetEvents) fleetReports {
	return fleetReports{&report.FleetFiles{Files: files, Meta: report.Meta{Version: readBuild().Version, Getenv: os.Getenv}, Events: events}}
}

// of writes the reports of a recorded run.
func (r fleetReports) of(run *record.Run) error {
	events, err := run.Events()
	if err != nil {
		return err
	}
	for _, e := range events {
		r.Observe(e)
	}
	return r.Close()
}

// clusterEvents returns what reads the events of a cluster's own run.
func clusterEvents(run *record.Run) fleetEvents {
	return func(cluster string) ([]runner.Event, error) {
		path := run.ClusterPath(cluster)
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			return nil, cmp.Or(err, error(fs.ErrNotExist))
		}
		return ledger.ReadEvents(path)
	}
}

// eventsFile reports whether an argument names a file of events.
func eventsFile(arg string) bool { return filepath.Ext(arg) == ".jsonl" }
