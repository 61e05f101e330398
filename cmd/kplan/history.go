package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// historyOptions are the flags of history.
type historyOptions struct {
	*app
	inputs *load.Options
	from   *[]string
	output data.Format
}

func newHistory(a *app) *cobra.Command {
	o := &historyOptions{app: a}
	cmd := &cobra.Command{
		Use:   "history [PLAN [RUN]]",
		Short: "List the recorded runs of a plan, or show one",
		Long: `List the runs of a plan that are recorded, in the cluster and in .kplan/runs beside the plan, or show one of them: RUN is the beginning of its ID.
PLAN is the plan's file, or its name where there is no such file: then the current folder's files and the cluster of the kubeconfig are
looked at. Without PLAN it is plan.yaml of the current folder.

A run that was killed is interrupted: kplan run --resume goes on with it. kplan replay PLAN RUN shows it as it went on.

Exit codes: 0 done, 2 there is no such plan or run.`,
		Example: `  kplan history plan.yaml
  kplan history plan.yaml 20261122-161030
  kplan history kof --context mothership
  kplan history plan.yaml -o json | jq -r '.runs[] | select(.state == "failed") | .run'`,
		Args:              upToTwo("PLAN", "RUN"),
		ValidArgsFunction: planFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.history(cmd.Context(), args) },
	}
	o.inputs = addInputs(cmd)
	o.from = addRecordedIn(cmd)
	addFormat(cmd, &o.output, "write the runs, or the one, to stdout as json or yaml", data.JSON, data.YAML)
	return cmd
}

// upToTwo is the check of arguments of commands that take at most two.
func upToTwo(first, second string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 2 {
			return fmt.Errorf("at most %s and %s, not %d: %s", first, second, len(args), strings.Join(args, " "))
		}
		return nil
	}
}

// addRecordedIn registers --from.
func addRecordedIn(cmd *cobra.Command) *[]string {
	from := cmd.Flags().StringSlice("from", []string{inCluster, inFiles}, "where to look for the run's record: cluster, local")
	complete(cmd, "from", inCluster, inFiles)
	return from
}

// recorded finds where the runs of a plan are recorded, whose file or name is given.
func (a *app) recorded(ctx context.Context, given string, in load.Options, from []string) (*plan.Plan, ledger.Store, error) {
	for _, place := range from {
		if place != inCluster && place != inFiles {
			return nil, ledger.Store{}, usagef("there are no records in %q, only in %s and %s", place, inCluster, inFiles)
		}
	}
	p := &plan.Plan{Metadata: plan.Metadata{Name: given}}
	dir, err := filepath.Abs(".")
	if err != nil {
		return nil, ledger.Store{}, err
	}
	if _, err := os.Stat(given); err == nil || strings.ContainsAny(given, `./\`) {
		if p, err = a.outline(given, in); err != nil {
			return nil, ledger.Store{}, &usageError{err: err}
		}
		dir = p.Dir
	}
	var s ledger.Store
	for _, place := range from {
		if place == inFiles {
			s.Folder = ledger.FolderOf(dir)
			continue
		}
		home, err := steps.Home(ctx, steps.Config{Plan: p, Flags: a.flags, UserAgent: userAgent()})
		switch {
		case err == nil:
			s.Place = &home
		case len(from) == 1:
			return nil, s, err
		default:
			a.warn("records in the cluster are not looked at", err)
		}
	}
	return p, s, nil
}

func (o *historyOptions) history(ctx context.Context, args []string) error {
	path, err := o.choosePlan(args, o.output != "")
	if err != nil {
		return err
	}
	p, store, err := o.recorded(ctx, path, *o.inputs, *o.from)
	if err != nil {
		return err
	}
	if len(args) == 2 {
		run, record, err := store.Find(ctx, p.Metadata.Name, args[1])
		if err != nil {
			return noRun(err)
		}
		return o.one(run, record)
	}
	runs, err := store.Runs(ctx, p.Metadata.Name)
	if err != nil {
		if len(runs) == 0 {
			return err
		}
		o.warn("the list of runs is not whole", err)
	}
	if o.output == "" {
		return o.table(p.Metadata.Name, runs)
	}
	return o.print(o.output, struct {
		Plan string       `json:"plan"`
		Runs []ledger.Run `json:"runs"`
	}{p.Metadata.Name, append([]ledger.Run{}, runs...)})
}

// noRun makes of the lack of a run a fault of the command line.
func noRun(err error) error {
	if none := (*ledger.NoRunError)(nil); errors.As(err, &none) {
		return &usageError{err: err, hint: "kplan history PLAN lists those that there are"}
	}
	return err
}

// table writes a line for each run.
func (o *historyOptions) table(plan string, runs []ledger.Run) error {
	if len(runs) == 0 {
		_, err := fmt.Fprintf(o.stdout, "no run of plan %s is recorded\n", o.oneLine(plan))
		return err
	}
	rows := [][]string{{"RUN", "STATE", "STARTED", "TIME", "STEPS", "BY", "RECORDED IN"}}
	for _, r := range runs {
		rows = append(rows, []string{
			r.Run, string(r.State), ago(r.Started), words.Brief(r.Ended.Sub(r.Started)), o.counts(r.Summary), o.oneLine(r.By), strings.Join(r.In, ", "),
		})
	}
	_, err := io.WriteString(o.stdout, words.Table(rows, nil))
	return err
}

// ago says when something was, for people.
func ago(t time.Time) string {
	return t.Local().Format("2006-01-02 15:04:05") + " (" + words.Brief(time.Since(t)) + " ago)"
}

// counts says how many steps ended in each state.
func (o *historyOptions) counts(s ledger.Summary) string {
	var parts []string
	for _, state := range runner.States {
		if n := s.Counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return strings.Join(parts, ", ")
}

// one shows one run.
func (o *historyOptions) one(run ledger.Run, r *ledger.Record) error {
	r.State = run.State
	if o.output != "" {
		shown := *r
		shown.Events = nil // replay shows them
		return o.print(o.output, struct {
			*ledger.Record
			In []string `json:"recorded_in"`
		}{&shown, run.In})
	}
	w := &strings.Builder{}
	for _, line := range [][2]string{
		{"run", r.Run},
		{"plan", r.Plan},
		{"on", r.On},
		{"by", words.Join(", kplan ", r.By, r.Program)},
		{"started", ago(r.Started)},
		{"took", words.Brief(r.Ended.Sub(r.Started))},
		{"state", words.Join(": ", string(r.State), r.Error)},
		{"recorded in", strings.Join(run.In, ", ")},
	} {
		fmt.Fprintf(w, "%-12s %s\n", line[0], o.oneLine(line[1]))
	}
	rows := [][]string{{"STEP", "STATE", "TIME", "RELEASE", "OBJECTS", "DONE IN RUN", "NOTE"}}
	for _, s := range r.Steps {
		rows = append(rows, o.row(s, r.Ended))
	}
	fmt.Fprintf(w, "\n%s", words.Table(rows, nil))
	for _, s := range r.Former {
		fmt.Fprintf(w, "\nstep %s is not in the plan any more; it applied %s\n", o.oneLine(s.Name), words.Count(len(s.Objects), "object"))
	}
	_, err := io.WriteString(o.stdout, w.String())
	return err
}

// row is a step of a run.
func (o *historyOptions) row(s ledger.Step, end time.Time) []string {
	took, rel, objects, done, note := "-", "-", "-", "-", s.Message
	if !s.Started.IsZero() {
		if !s.Ended.IsZero() {
			end = s.Ended
		}
		took = words.Brief(end.Sub(s.Started))
	}
	if s.Release != nil {
		rel = fmt.Sprintf("%s/%s rev %d", s.Release.Namespace, s.Release.Name, s.Revision)
	}
	if n := len(s.Objects); n > 0 {
		created := 0
		for _, x := range s.Objects {
			if x.Created {
				created++
			}
		}
		objects = fmt.Sprintf("%d, %d made", n, created)
	}
	if s.Done != nil {
		done = s.Done.Run
	}
	if s.Error != "" {
		note = s.Error
	}
	cells := []string{s.Name, string(s.State), took, rel, objects, done, words.Cut(o.oneLine(note), widestText, "…")}
	for i, c := range cells {
		cells[i] = o.oneLine(c)
	}
	return cells
}
