package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/changes"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tty"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
	"github.com/kplan-dev/kplan/steps/diff"
)

const (
	formatText     data.Format = "text"
	formatMarkdown data.Format = "markdown"
)

// diffOptions are the flags of kplan diff.
type diffOptions struct {
	*app
	inputs   *load.Options
	picked   *plan.Selection
	force    *helmSteps
	parallel int
	context  int
	brief    bool
	detailed bool
	planOut  string
	output   data.Format
}

func newDiff(a *app) *cobra.Command {
	o := &diffOptions{app: a, output: formatText}
	cmd := &cobra.Command{
		Use:   "diff [PLAN]",
		Short: "Show what a run of a plan would change",
		Long: `Show for each step of a plan what a run would change in its clusters, and write nothing there.
Without PLAN that is plan.yaml of the current folder.

Objects are sent as dry runs, as the step would send them, and the API server's answer is compared with what is there. Of a release whose chart
and values did not change nothing is rendered: what others changed of its objects since is shown as drift, with the field manager that did.
What cannot be asked yet, since a kind, a namespace or a cluster comes with an earlier step or a webhook does not answer yet, is shown by its manifest
alone, and said so. Steps that wait are looked at for a moment. Values of Secrets are never shown, only which of them change.

Nothing goes to stdout when nothing would change. With -o json and yaml it is data, with -o markdown a comment for a merge request.
--plan-out writes what was shown to a file, and 'kplan run FILE' does exactly that, or refuses if the plan, its inputs or the clusters have moved.

Exit codes: 0 done, 1 a step would fail or cannot be compared, 2 bad plan or usage, 3 there are changes (with --detailed-exitcode).`,
		Example: `  kplan diff plan.yaml
  kplan diff plan.yaml --only eso --context-lines 1
  kplan diff plan.yaml --detailed-exitcode --summary
  kplan diff plan.yaml -o markdown > comment.md
  kplan diff plan.yaml --plan-out reviewed.json && kplan run reviewed.json`,
		Args:              onePlanBeside("force-upgrade"),
		ValidArgsFunction: planFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.inputs = addInputs(cmd)
	o.picked = addSelection(cmd, o.inputs)
	o.force = addForce(cmd, o.inputs)
	o.addFetching(cmd)
	flags := cmd.Flags()
	flags.IntVar(&o.parallel, "parallel", runner.DefaultParallel, "how many steps are compared at once")
	flags.IntVar(&o.context, "context-lines", 3, "how many unchanged lines are shown around those that change")
	flags.BoolVar(&o.brief, "summary", false, "name what would change, without the objects' texts")
	flags.BoolVar(&o.detailed, "detailed-exitcode", false, "end with exit code 3 when there are changes")
	flags.StringVar(&o.planOut, "plan-out", "", "write what was shown to this file, for 'kplan run FILE'")
	addFormat(cmd, &o.output, "write it as text, json, yaml or markdown", formatText, data.JSON, data.YAML, formatMarkdown)
	return cmd
}

// errChanges says that there are changes, for --detailed-exitcode.
var errChanges = errors.New("there are changes")

func (o *diffOptions) run(ctx context.Context, args []string) error {
	switch {
	case o.parallel < 1:
		return usagef("--parallel must be at least 1, not %d", o.parallel)
	case o.context < 0:
		return usagef("--context-lines must not be negative")
	}
	path, err := o.choosePlan(args, false)
	if err != nil {
		return err
	}
	p, err := o.load(path, *o.inputs)
	if err != nil {
		return &usageError{err: err}
	}
	if err := p.Select(*o.picked); err != nil {
		return &usageError{err: err}
	}
	force, err := o.force.in(p)
	if err != nil {
		return err
	}
	if o.planOut != "" {
		if err := refuseOver("--plan-out "+o.planOut, o.planOut, p.Reads()); err != nil {
			return err
		}
	}
	ctx, signals := interrupt.Context(ctx)
	defer signals.Release()
	c, err := o.compare(ctx, p, force, o.parallel, o.planOut != "")
	if err != nil {
		return err
	}
	if text := o.fetching.unlocked(); text != "" {
		fmt.Fprintln(o.stderr, o.oneLine(text))
	}
	if err := o.write(c.diff); err != nil {
		return err
	}
	if o.planOut != "" {
		r := reviewOf(p, path, c, inputsOf{*o.inputs, *o.picked, o.force.names})
		if err := r.write(o.planOut); err != nil {
			return err
		}
		fmt.Fprintf(o.stderr, "note: what was shown is in %s; run it by: %s run %s\n", words.Clean(o.planOut), o.name, words.Clean(o.planOut))
	}
	if err := failing(c.diff); err != nil {
		return err
	}
	if o.detailed && c.diff.Changes {
		return shown(errChanges)
	}
	return nil
}

// failing says that steps would fail, or cannot be compared.
func failing(d *diff.Diff) error {
	var names []string
	for _, s := range d.Steps {
		if s.State == diff.Fails {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%s would fail: %s", words.Count(len(names), "step"), words.List(names, 5))
}

// comparison is what a plan would change, and in which clusters.
type comparison struct {
	diff    *diff.Diff
	cluster string
	key     ledger.Key // of the plan's records, if that was wanted
}

// compare finds what a run would change; keyed wants the key of the plan's records, too.
// On a terminal it tells how far it is.
func (a *app) compare(ctx context.Context, p *plan.Plan, force map[string]bool, parallel int, keyed bool) (*comparison, error) {
	from, err := a.sources(p)
	if err != nil {
		return nil, err
	}
	kinds, err := steps.New(ctx, steps.Config{Flags: a.flags, Plan: p, ForceUpgrade: force, Sources: from, UserAgent: userAgent()})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	defer kinds.Close()
	progress, done := counting(a.stderr, len(p.Steps)), 0
	d, err := kinds.Diff(ctx, parallel, func(diff.Step) {
		done++
		progress(done)
	})
	progress(0)
	if err != nil {
		return nil, err
	}
	c := &comparison{diff: d, cluster: kinds.Cluster()}
	if keyed {
		c.key = a.keyOf(ctx, p, kinds)
	}
	return c, nil
}

// counting returns what shows on w, if that is a terminal, how many steps are done, and
// with 0 takes it away. It shows nothing of what is done at once.
func counting(w io.Writer, total int) func(int) {
	began, drawn := time.Now(), false
	return func(n int) {
		switch {
		case !tty.Is(w):
		case n > 0 && time.Since(began) > time.Second/2:
			fmt.Fprintf(w, "\r\x1b[Kcomparing: %d of %s", n, words.Count(total, "step"))
			drawn = true
		case n == 0 && drawn:
			fmt.Fprint(w, "\r\x1b[K")
		}
	}
}

// style is how changes are written for people.
func (a *app) style(colour bool, context int, brief bool) changes.Style {
	return changes.Style{Colour: colour, Context: context, Brief: brief, Clean: a.secrets().Text}
}

// write writes what would change to stdout.
func (o *diffOptions) write(d *diff.Diff) error {
	style := o.style(o.colour(o.stdout), o.context, o.brief)
	var err error
	switch o.output {
	case formatMarkdown:
		err = style.Markdown(o.stdout, d)
	case formatText:
		err = style.Write(o.stdout, d)
		if err == nil && !d.Changes {
			fmt.Fprintf(o.stderr, "no changes: %s\n", strings.SplitN(changes.Summary(d), "; ", 2)[1])
		}
	default:
		return o.print(o.output, d)
	}
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}
