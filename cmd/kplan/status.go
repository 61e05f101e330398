package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tty"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/webhooks"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
	"github.com/kplan-dev/kplan/steps/status"
)

// statusOptions are the flags of status.
type statusOptions struct {
	*app
	inputs   *load.Options
	output   data.Format
	watch    bool
	interval time.Duration
	parallel int
}

func newStatus(a *app) *cobra.Command {
	o := &statusOptions{app: a, output: formatTable}
	cmd := &cobra.Command{
		Use:   "status [PLAN]",
		Short: "Show how a plan's steps stand in their clusters",
		Long: `Show how the steps of a plan stand now: whether releases are deployed and objects are there and ready, whether what a wait or webhook
step waits for is so, what others changed, how the webhooks that steps bring stand, and when the plan was last run and by whom.
Nothing is written. Charts are not fetched: what the plan would change is for kplan diff.

A step is healthy, unhealthy (something is missing, not ready or failed), absent (nothing of it is there) or unknown (it could not be
looked at). What others changed is told, and makes no step unhealthy by itself.

Exit codes: 0 all steps are healthy, 1 one is not, 2 bad plan or usage.`,
		Example: `  kplan status plan.yaml
  kplan status plan.yaml --watch
  kplan status plan.yaml -o json | jq '.steps[] | select(.health != "healthy")'`,
		Args:              onePlan,
		ValidArgsFunction: planFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.inputs = addInputs(cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&o.watch, "watch", "w", false, "look again until ^C: the table anew on a terminal, else a line for each change")
	flags.DurationVar(&o.interval, "interval", 2*time.Second, "the time between two looks of --watch")
	flags.IntVar(&o.parallel, "parallel", runner.DefaultParallel, "how many steps are looked at once")
	addFormat(cmd, &o.output, "how to write it: table, json or yaml", formatTable, data.JSON, data.YAML)
	return cmd
}

func (o *statusOptions) check() error {
	switch {
	case o.watch && o.output == data.YAML:
		return usagef("--watch cannot write yaml, only table and json")
	case o.interval <= 0:
		return usagef("--interval must be positive")
	case o.parallel <= 0:
		return usagef("--parallel must be positive")
	}
	return nil
}

func (o *statusOptions) run(ctx context.Context, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	path, err := o.choosePlan(args, o.output != formatTable)
	if err != nil {
		return err
	}
	p, err := o.read(path, *o.inputs)
	if err != nil {
		return &usageError{err: err}
	}
	ctx, signals := interrupt.Context(ctx)
	defer signals.Release()
	from, err := o.sources(p)
	if err != nil {
		return err
	}
	s, err := steps.New(ctx, steps.Config{Plan: p, Flags: o.flags, Sources: from, UserAgent: userAgent()})
	if err != nil {
		return stopped(ctx, err)
	}
	defer s.Close()
	look := &outlook{statusOptions: o, plan: p, steps: s, noted: map[string]bool{}}
	if o.watch {
		return stopped(ctx, look.watch(ctx))
	}
	st, err := look.look(ctx)
	if err != nil {
		return stopped(ctx, err)
	}
	if o.output == formatTable {
		_, err = io.WriteString(o.stdout, look.table(st))
	} else {
		err = o.print(o.output, st)
	}
	if err == nil && !st.Healthy {
		err = &shownError{errors.New("the plan is not healthy")}
	}
	return err
}

// standing is how a plan stands, as -o json writes it.
type standing struct {
	Plan    string `json:"plan"`
	On      string `json:"on,omitempty"`
	Healthy bool   `json:"healthy"`
	// Lock is who runs the plan now.
	Lock    *ledger.Holder `json:"lock,omitempty"`
	LastRun *ledger.Run    `json:"last_run,omitempty"`
	Steps   []stepStanding `json:"steps"`
}

// stepStanding is how a step stands, and what became of it in the last run.
type stepStanding struct {
	status.Step
	LastState runner.State       `json:"last_state,omitempty"`
	LastError string             `json:"last_error,omitempty"`
	Webhooks  []webhooks.Webhook `json:"webhooks,omitempty"`
}

// outlook is what a command looks at.
type outlook struct {
	*statusOptions
	plan  *plan.Plan
	steps *steps.Steps
	noted map[string]bool
}

// look reads how all stands.
func (l *outlook) look(ctx context.Context) (*standing, error) {
	st := &standing{Plan: l.plan.Metadata.Name}
	store := ledger.Store{Folder: ledger.FolderOf(l.plan.Dir)}
	if home, err := l.steps.Home(ctx); err == nil {
		store.Place = &home
		if st.Lock, err = home.Locked(ctx); err != nil && ctx.Err() == nil {
			l.once("who runs the plan is not known", err)
		}
	} else if ctx.Err() == nil {
		l.once("the records in the cluster are not looked at", err)
	}
	run, record, err := store.Find(ctx, st.Plan, "")
	switch none := (*ledger.NoRunError)(nil); {
	case err == nil:
		st.LastRun = &run
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case !errors.As(err, &none):
		l.once("the last run is not known", err)
	}
	all, err := l.steps.Health(ctx, l.parallel, record)
	if err != nil {
		return nil, err
	}
	st.Healthy, st.On = status.AllHealthy(all), l.steps.Cluster()
	for _, s := range all {
		shown := stepStanding{Step: s, Webhooks: webhooks.Of(s.Webhooks)}
		if record != nil {
			if before := record.Step(s.Name); before != nil {
				shown.LastState, shown.LastError = before.State, before.Error
			}
		}
		st.Steps = append(st.Steps, shown)
	}
	return st, nil
}

// once warns of something once.
func (l *outlook) once(missing string, err error) {
	if !l.noted[missing] {
		l.noted[missing] = true
		l.warn(missing, err)
	}
}

// table is how all stands, for people.
func (l *outlook) table(st *standing) string {
	w := &strings.Builder{}
	out := tty.Unwrap(l.stdout)
	paint := webhooks.Style{Colour: l.colour(out)}
	verdict := paint.Paint("32", "healthy")
	if !st.Healthy {
		verdict = paint.Paint("31", "not healthy")
	}
	fmt.Fprintf(w, "plan %s is %s, on %s\n", l.oneLine(st.Plan), verdict, l.oneLine(st.On))
	if st.LastRun == nil {
		w.WriteString("no run of it is recorded\n")
	} else {
		r := st.LastRun
		fmt.Fprintf(w, "last run %s %s, started %s, took %s, by %s\n", r.Run, r.State, ago(r.Started), words.Brief(r.Ended.Sub(r.Started)), l.oneLine(r.By))
	}
	if st.Lock != nil {
		fmt.Fprintf(w, "locked by %s\n", l.oneLine(st.Lock.String()))
	}
	rows := [][]string{{"STEP", "KIND", "HEALTH", "READY", "RELEASE", "LAST RUN", "NOTE"}}
	for _, s := range st.Steps {
		rows = append(rows, l.row(s))
	}
	w.WriteString("\n" + words.Table(rows, func(row, column int, cell, pad string) string {
		if row > 0 && column == 2 {
			return paint.Paint(healthColours[st.Steps[row-1].Health], cell) + pad
		}
		return cell + pad
	}))
	l.details(w, st)
	return w.String()
}

// healthColours are the codes of ANSI colours.
var healthColours = map[status.Health]string{
	status.Healthy: "32", status.Unhealthy: "31", status.Absent: "31", status.Unknown: "33", status.Skipped: "2",
}

// row is a step's line.
func (l *outlook) row(s stepStanding) []string {
	ready, rel, last := "-", "-", "-"
	if s.Objects > 0 {
		ready = fmt.Sprintf("%d/%d", s.Ready, s.Objects)
	}
	if r := s.Release; r != nil {
		rel = fmt.Sprintf("%s/%s rev %d %s", r.Namespace, r.Name, r.Revision, r.Status)
	}
	if s.LastState != "" {
		last = string(s.LastState)
	}
	note := s.Message
	if note == "" && len(s.Troubles) > 0 {
		note = trouble(s.Troubles[0])
	}
	if n := len(s.Drift); n > 0 {
		note = words.Join("; ", note, words.Count(n, "object")+" changed by others")
	}
	cells := []string{s.Name, string(s.Kind), string(s.Health), ready, rel, last, words.Cut(l.oneLine(note), widestText, "…")}
	for i, c := range cells {
		cells[i] = l.oneLine(c)
	}
	return cells
}

// trouble says what is wrong with an object.
func trouble(t status.Trouble) string {
	state := t.State
	if state == status.Missing {
		state = "is missing"
	}
	return words.Join(": ", t.Object+" "+state, t.Reason)
}

// mostDetails is how many objects of a step are told in the table.
const mostDetails = 10

// details tells below the table what is wrong with each step.
func (l *outlook) details(w io.Writer, st *standing) {
	var all []webhooks.Webhook
	for _, s := range st.Steps {
		var lines []string
		if s.Health == status.Absent {
			continue
		}
		for _, t := range s.Troubles {
			lines = append(lines, trouble(t))
		}
		for _, d := range s.Drift {
			lines = append(lines, d.Object+" was changed: "+strings.Join(d.Fields, ", "))
		}
		if more := len(lines) - mostDetails; more > 0 {
			lines = append(lines[:mostDetails], fmt.Sprintf("and %d more; -o json lists all", more))
		}
		if len(lines) > 0 {
			fmt.Fprintf(w, "\n%s:\n", l.oneLine(s.Name))
		}
		for _, line := range lines {
			fmt.Fprintf(w, "  %s\n", l.oneLine(line))
		}
		all = append(all, s.Webhooks...)
	}
	if len(all) > 0 {
		out := tty.Unwrap(l.stdout)
		style := webhooks.Style{Colour: l.colour(out), ASCII: !tty.Unicode(), Fold: true, Now: time.Now()}
		style.Width, _, _ = tty.Size(out)
		fmt.Fprintln(w)
		_ = style.Table(w, all) // it is a buffer
	}
}
