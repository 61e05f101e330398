package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/outfile"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/member"
	"github.com/kplan-dev/kplan/fleet/freeze"
	"github.com/kplan-dev/kplan/fleet/inquiry"
	"github.com/kplan-dev/kplan/fleet/inventory"
	fleetload "github.com/kplan-dev/kplan/fleet/load"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/plan/redact"
)

// fleetPlanOptions are the flags of fleet plan.
type fleetPlanOptions struct {
	*app
	inputs  *load.Options
	output  data.Format
	planOut string
	offline bool
	within  time.Duration
}

func newFleetPlan(a *app) *cobra.Command {
	o := &fleetPlanOptions{app: a}
	cmd := &cobra.Command{
		Use:   "plan [FLEET]",
		Short: "Show what would run where, and ask all clusters first",
		Long: `Find the clusters of a fleet, and show in which wave each would be and with which values. Without FLEET it is fleet.yaml of the current folder.
Nothing is written to a cluster.

Clusters are found in the management clusters that the inventory names, and their kubeconfigs are read. Then all of them are asked side by side: whether
they answer and take the credentials, which version they have, whether the user may do what the plan does, and whether its charts render there.
What several clusters say alike is told once. --offline asks the management clusters only.

The result has a digest of the clusters, their waves and values, where they are, and all files of the plan. 'kplan fleet run --digest' runs that and
nothing else. --plan-out writes it to a file.

Exit codes: 0 nothing speaks against it, 1 a cluster does not answer or the plan could not do its work there, 2 bad fleet, plan or usage.`,
		Example: `  kplan fleet plan fleet.yaml
  kplan fleet plan fleet.yaml --offline
  kplan fleet plan fleet.yaml --var-file production.yaml --plan-out rollout.json
  kplan fleet plan fleet.yaml -o json | jq -r '.clusters[] | [.wave, .name] | @tsv'`,
		Args:              oneFleet,
		ValidArgsFunction: fleetFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.inputs = addFleetInputs(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&o.offline, "offline", false, "do not ask the clusters of the fleet, only where they are found")
	flags.StringVar(&o.planOut, "plan-out", "", "write the rollout to this `file`, as JSON")
	flags.DurationVar(&o.within, "within", inquiry.DefaultWithin, "how long each cluster has to answer")
	o.addFetching(cmd)
	addFormat(cmd, &o.output, "write the rollout to stdout as data: json or yaml", data.JSON, data.YAML)
	return cmd
}

func (o *fleetPlanOptions) run(ctx context.Context, args []string) error {
	if o.within <= 0 {
		return usagef("--within must be longer than nothing")
	}
	path, err := o.chooseFleet(args, o.output != "")
	if err != nil {
		return err
	}
	f, err := o.loadFleet(path, *o.inputs)
	if err != nil {
		return &usageError{err: err}
	}
	if err := refuseOver("--plan-out "+o.planOut, o.planOut, []plan.Read{{Path: path, What: "the fleet file"}, {Path: f.PlanFile, What: "the plan"}}); err != nil {
		return err
	}
	ctx, signals := interrupt.Context(ctx)
	defer signals.Release()
	return stopped(ctx, o.of(ctx, f))
}

// of freezes a fleet, asks its clusters, and shows both.
func (o *fleetPlanOptions) of(ctx context.Context, f *fleetload.Fleet) error {
	managed := o.managed(f)
	frozen, err := o.frozen(ctx, f, managed)
	if err != nil {
		return err
	}
	var answers []inquiry.Answer
	if !o.offline {
		if answers, err = o.ask(ctx, f, frozen, managed); err != nil {
			return err
		}
	}
	groups := inquiry.GroupsOf(answers, frozen.Own())
	if o.output != "" {
		err = o.print(o.output, frozen.Rollout)
	} else {
		err = o.show(frozen, answers)
	}
	if err == nil {
		err = o.keepRollout(frozen.Rollout)
	}
	o.tell(f, frozen, groups)
	if err != nil {
		return err
	}
	return verdict(answers, groups)
}

// frozen finds the clusters of a fleet, and freezes it.
func (o *fleetPlanOptions) frozen(ctx context.Context, f *fleetload.Fleet, managed *inventory.Management) (*freeze.Frozen, error) {
	found, err := managed.Find(ctx, f.Inventory)
	if err != nil {
		return nil, err
	}
	kubeconfigs := inventory.Kubeconfigs{Management: managed}
	return freeze.Freeze(ctx, freeze.Input{Fleet: f, Found: found, Values: o.values(), Kubeconfig: kubeconfigs.Read})
}

// values are what is given to variables from outside.
func (o *fleetPlanOptions) values() load.Options {
	in := *o.inputs
	in.Decrypter = o.keys
	return in
}

// ask asks all clusters of a rollout.
func (o *fleetPlanOptions) ask(ctx context.Context, f *fleetload.Fleet, frozen *freeze.Frozen, managed *inventory.Management) ([]inquiry.Answer, error) {
	from := &fleetSources{app: o.app, secrets: &redact.Set{}}
	defer from.close()
	kubeconfigs := inventory.Kubeconfigs{Management: managed}
	in := o.values()
	in.Unknown = true // the run needs the secrets, and nobody else
	members := &member.Config{
		File: f.PlanFile, Inputs: in, Target: f.Plan.Cluster, Kubeconfig: kubeconfigs.Read, Flags: o.flags,
		Sources: from.of, Secrets: from.secrets, UserAgent: userAgent(),
	}
	p := newAsking(o.app, len(frozen.Clusters))
	defer p.close()
	c := inquiry.Config{Kubeconfig: kubeconfigs.Read, Look: members.Look, UserAgent: userAgent(), Within: o.within}
	return c.Ask(ctx, frozen.Clusters, p.asked)
}

// keepRollout writes the rollout to the file that was asked for.
func (o *fleetPlanOptions) keepRollout(r *fleet.Rollout) error {
	if o.planOut == "" {
		return nil
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = outfile.Write(o.planOut, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("--plan-out: %w", err)
	}
	fmt.Fprintf(o.stderr, "note: the rollout is in %s\n", words.Clean(o.planOut))
	return nil
}

// tell writes to stderr what was left out, what is odd, and what clusters say.
func (o *fleetPlanOptions) tell(f *fleetload.Fleet, frozen *freeze.Frozen, groups []inquiry.Group) {
	var out bytes.Buffer
	line := func(kind, text string) { fmt.Fprintf(&out, "%s: %s\n", kind, o.oneLine(text)) }
	for _, n := range frozen.Notes {
		line("note", n.String())
	}
	if frozen.Unselected > 0 {
		line("note", words.Count(frozen.Unselected, "cluster")+" not taken by select of the inventory")
	}
	for _, text := range frozen.Warnings {
		line("warning", text)
	}
	if names := frozen.Withheld; len(names) > 0 && f.Engine.Kubernetes != nil {
		line("warning", "sensitive variables have their values from this machine, where Jobs have none: "+words.List(names, 5)+"; let the plan read them by secret: of the variable")
	}
	for _, g := range groups {
		text := g.Text
		if g.Step != "" {
			text = fmt.Sprintf("step %q: %s", g.Step, text)
		}
		line(string(g.Severity), fmt.Sprintf("%s: %s: %s", words.Count(len(g.Clusters), "cluster"), text, words.List(g.Clusters, 10)))
		if g.Hint != "" {
			line("  hint", g.Hint)
		}
	}
	_, _ = o.stderr.Write(out.Bytes())
}

// fleetAskedError says that something speaks against a rollout.
type fleetAskedError struct {
	bad, all int
	plan     bool // nothing but the plan is wrong
}

func (e *fleetAskedError) Error() string {
	return fmt.Sprintf("not ready for the plan: %s of %s", thousands(e.bad), clusterCount(e.all))
}

// Hint implements the interface that runner.HintOf looks for.
func (e *fleetAskedError) Hint() string {
	return "the errors above say why; a run would count these clusters as failed"
}

// Usage says whether the user's input is at fault.
func (e *fleetAskedError) Usage() bool { return e.plan }

// verdict is the error of what clusters answered.
func verdict(answers []inquiry.Answer, groups []inquiry.Group) error {
	bad := 0
	for _, a := range answers {
		if !a.Good() {
			bad++
		}
	}
	if bad == 0 {
		return nil
	}
	others := slices.ContainsFunc(groups, func(g inquiry.Group) bool { return g.Severity == "error" && g.Class != fleet.BadPlan })
	return &fleetAskedError{bad, len(answers), !others}
}
