package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/down"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tty"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/steps"
	"github.com/kplan-dev/kplan/steps/deletion"
	"github.com/kplan-dev/kplan/steps/teardown"
)

// downOptions are the flags of down.
type downOptions struct {
	runOptions
	yes, dryRun, crds bool
	force             deletion.Options
}

func newDown(a *app) *cobra.Command {
	o := &downOptions{runOptions: runOptions{app: a}}
	cmd := &cobra.Command{
		Use:   "down [PLAN]",
		Short: "Take away what a plan has made",
		Long: `Delete what runs of a plan have made: its steps in reverse, independent ones side by side. Without PLAN that is plan.yaml of the current folder.

What goes and what stays is listed first, and asked about on a terminal; --yes goes on without, --dry-run ends there.

Of each step custom resources go first, while their webhooks and controllers still answer, then webhook configurations, workloads, and the rest; each
is awaited, finalizers included. Releases are uninstalled with their hooks, and what these left goes too. Namespaces that the plan made go last, if
nothing of somebody else is left in them. What was there before, what others share, what a chart wants to be kept, and volumes stay, and are named.

CustomResourceDefinitions stay, with all objects of their kinds. --delete-crds deletes them, and every custom resource of their kinds, whoever made it.

When something can not go, the cause is told with what to do: a finalizer whose controller is gone, or a webhook that nobody serves. --force-finalizers takes
such finalizers away, which leaves behind what they stand for. --break-webhooks sets the failurePolicy of such a webhook's configuration to Ignore
while the step lasts.

--tags, --skip-tags, --only, --from and --until pick the same steps as those of run: --from STEP takes away the step and all that need it.
A run that was interrupted is gone on with by another. With nothing left to do it says so, and succeeds.

Exit codes: 0 done, 1 a step failed, 2 bad plan or usage, or nobody to ask, 4 timed out, 5 another run has the plan's lock,
129, 130 and 143 stopped by SIGHUP, SIGINT and SIGTERM.`,
		Example: `  kplan down plan.yaml
  kplan down plan.yaml --dry-run
  kplan down plan.yaml --yes --delete-crds
  kplan down plan.yaml --from eso
  kplan down plan.yaml --yes --break-webhooks --force-finalizers
  kplan down plan.yaml --dry-run -o json | jq -r '.steps[].goes[]?.object'`,
		Args:              onePlan,
		ValidArgsFunction: planFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.down(cmd.Context(), args) },
	}
	o.inputs = addInputs(cmd)
	o.picked = addSelection(cmd, o.inputs)
	o.addRunning(cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&o.dryRun, "dry-run", false, "say what would go, and what would stay, and delete nothing")
	flags.BoolVar(&o.crds, "delete-crds", false, "delete CustomResourceDefinitions too, and all custom resources of their kinds")
	flags.BoolVar(&o.force.ForceFinalizers, "force-finalizers", false, "take away finalizers whose controller is gone")
	flags.BoolVar(&o.force.BreakWebhooks, "break-webhooks", false, "let requests pass that a webhook which nobody serves would judge")
	addFormat(cmd, &o.output, "write a summary of the run to stdout, or with --dry-run what would go, as json or yaml", data.JSON, data.YAML)
	return cmd
}

func (o *downOptions) down(ctx context.Context, args []string) error {
	mode, err := o.check()
	if err != nil {
		return err
	}
	path, err := o.choosePlan(args, mode == ui.JSON || mode == ui.Quiet)
	if err != nil {
		return err
	}
	p, err := o.open(path)
	if err != nil {
		return err
	}
	if err := o.pick(p); err != nil {
		return err
	}
	from, err := o.sources(p)
	if err != nil {
		return err
	}
	kinds, err := steps.New(ctx, steps.Config{Plan: p, Flags: o.flags, Sources: from, UserAgent: userAgent()})
	if err != nil {
		return err
	}
	o.past(ctx, p, kinds)
	kinds.Close()
	t, err := teardown.Look(ctx, teardown.Config{
		Plan: p, Flags: o.flags, Sources: from, UserAgent: userAgent(), DeleteCRDs: o.crds, Past: o.recorded.past.Record, All: o.all(),
	})
	if err != nil {
		return err
	}
	list := down.List{Plan: p.Metadata.Name, Steps: t.Steps, Stays: needed(p)}
	if o.dryRun {
		return o.showDryRun(list)
	}
	if len(t.Plan.Steps) == 0 {
		if err := o.show(o.stderr, list); err != nil {
			return err
		}
		fmt.Fprintf(o.stderr, "plan %s: nothing to do\n", o.oneLine(p.Metadata.Name))
		return nil
	}
	if mode != ui.JSON && mode != ui.Quiet || !o.yes {
		if err := o.show(o.stderr, list); err != nil {
			return err
		}
	}
	if !o.yes {
		fmt.Fprintln(o.stderr)
		err := o.confirm(ctx, question{
			text: o.oneLine(list.Plan) + ": delete all of this?", whole: true, done: "deleted", instead: "look at it with --dry-run, then go on with --yes",
		})
		if err != nil {
			return err
		}
	}
	o.deletion = o.force
	return o.runPlan(ctx, t.Plan)
}

// pick leaves out the steps that are to stay. That one reads an output of another does
// not matter here: neither is run.
func (o *downOptions) pick(p *plan.Plan) error {
	before := slices.Clone(p.Steps)
	for i := range p.Steps {
		p.Steps[i].Pending = nil
	}
	err := p.Select(*o.picked)
	for i := range p.Steps {
		p.Steps[i].Pending = before[i].Pending
	}
	if err != nil {
		return &usageError{err: err}
	}
	return nil
}

// all reports whether every step was picked.
func (o *downOptions) all() bool {
	s := o.picked
	return len(s.Tags)+len(s.SkipTags)+len(s.Only)+len(s.From)+len(s.Until) == 0
}

// needed says which steps stay although one that they need goes.
func needed(p *plan.Plan) []string {
	stays := map[string]bool{}
	for _, s := range p.Steps {
		stays[s.Name] = s.Skip != "" && s.When != false
	}
	var all []string
	for _, s := range p.Steps {
		for _, n := range p.Graph().Needs(s.Name) {
			if stays[s.Name] && !stays[n] {
				all = append(all, fmt.Sprintf("%s stays, and needs %s", s.Name, n))
			}
		}
	}
	return all
}

// show writes what goes and what stays.
func (o *downOptions) show(w io.Writer, list down.List) error {
	width, _, ok := tty.Size(w)
	if !ok {
		width = 0
	}
	_, err := io.WriteString(w, o.secrets().Text(list.Text(width)))
	return err
}

func (o *downOptions) showDryRun(list down.List) error {
	if o.output != "" {
		return o.print(o.output, list)
	}
	if err := o.show(o.stdout, list); err != nil {
		return err
	}
	if list.Objects() == 0 {
		fmt.Fprintf(o.stderr, "plan %s: nothing to do\n", o.oneLine(list.Plan))
	}
	return nil
}
