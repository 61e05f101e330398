package main

import (
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
)

// addSelection registers the flags that pick steps of a plan.
func addSelection(cmd *cobra.Command, in *load.Options) *plan.Selection {
	var s plan.Selection
	flags := cmd.Flags()
	flags.StringSliceVar(&s.Tags, "tags", nil, "only steps that have one of these `tags`")
	flags.StringSliceVar(&s.SkipTags, "skip-tags", nil, "no steps that have one of these `tags`")
	// Names of steps may have commas in them: NAME[ITEM].
	flags.StringArrayVar(&s.Only, "only", nil, "only this `step`; may be repeated")
	flags.StringArrayVar(&s.From, "from", nil, "only this `step` and all that need it, directly or not; may be repeated")
	flags.StringArrayVar(&s.Until, "until", nil, "only this `step` and all that it needs, directly or not; may be repeated")
	names := fromPlan(in, (*plan.Plan).StepNames)
	tags := lastOf(fromPlan(in, (*plan.Plan).TagNames))
	for flag, f := range map[string]cobra.CompletionFunc{"tags": tags, "skip-tags": tags, "only": names, "from": names, "until": names} {
		completeBy(cmd, flag, f)
	}
	return &s
}

// fromPlan completes names that the plan has.
func fromPlan(in *load.Options, names func(*plan.Plan) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		file := namedPlan(args)
		p, err := load.File(file, *in)
		if err != nil { // it is being written, or wants variables: what stands there must do
			p = sketch(file)
		}
		return names(p), cobra.ShellCompDirectiveNoFileComp
	}
}

// lastOf completes the last of several words that are separated by commas.
func lastOf(one cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		at := strings.LastIndexByte(typed, ',') + 1
		words, directive := one(cmd, args, typed[at:])
		var found []string
		for _, w := range words {
			if !slices.Contains(strings.Split(typed[:at], ","), w) {
				found = append(found, typed[:at]+w)
			}
		}
		return found, directive
	}
}

// sketch reads the names and tags of a plan's own steps, and which are helm steps,
// as far as that goes.
func sketch(file string) *plan.Plan {
	var p plan.Plan
	f, err := os.Open(file)
	if err != nil {
		return &p
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, 1<<20))
	type step struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
		Helm any      `json:"helm"`
	}
	var tree struct{ Steps, Finally []step }
	if err != nil || yaml.Unmarshal(src, &tree) != nil {
		return &p
	}
	for _, s := range slices.Concat(tree.Steps, tree.Finally) {
		one := plan.Step{Name: s.Name, Tags: s.Tags}
		if s.Helm != nil {
			one.Helm = &plan.Helm{}
		}
		p.Steps = append(p.Steps, one)
	}
	return &p
}

// helmSteps is a flag that means helm steps: one with =step, all of them without.
type helmSteps struct {
	flag  string
	names []string
}

// everyStep is what such a flag means without a value. No step has this name.
const everyStep = "*"

// addForce registers the flag that upgrades releases for which nothing changed.
func addForce(cmd *cobra.Command, in *load.Options) *helmSteps {
	return addHelmSteps(cmd, in, "force-upgrade", "upgrade the release of this helm `step` also when its chart and values did not change;\n"+
		"may be repeated, all helm steps without =step")
}

// addTakeOver registers the flag that goes on with releases which others left.
func addTakeOver(cmd *cobra.Command, in *load.Options) *helmSteps {
	return addHelmSteps(cmd, in, "take-over", "go on with the release of this helm `step` also when somebody else left it pending, such as helm;\n"+
		"may be repeated, all helm steps without =step")
}

func addHelmSteps(cmd *cobra.Command, in *load.Options, flag, usage string) *helmSteps {
	h := &helmSteps{flag: flag}
	// Names of steps may have commas in them: NAME[ITEM].
	cmd.Flags().StringArrayVar(&h.names, flag, nil, usage)
	cmd.Flags().Lookup(flag).NoOptDefVal = everyStep
	completeBy(cmd, flag, fromPlan(in, func(p *plan.Plan) []string { return p.StepNamesOf(plan.KindHelm) }))
	return h
}

// in returns the names of the steps of a plan that the flag means.
func (h *helmSteps) in(p *plan.Plan) (map[string]bool, error) {
	names := h.names
	if slices.Contains(names, everyStep) {
		names = p.StepNamesOf(plan.KindHelm)
	}
	found, err := p.Named("--"+h.flag, plan.KindHelm, names...)
	if err != nil {
		return nil, &usageError{err: err}
	}
	return found, nil
}

// onePlanBeside is onePlan that knows what it means when the step of such a flag
// stands behind a blank: a flag whose value may be left out does not look for it
// there.
func onePlanBeside(flags ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := onePlan(cmd, args)
		if i := slices.IndexFunc(flags, cmd.Flags().Changed); len(args) > 1 && i >= 0 {
			return &usageError{err: err, hint: "the step of --" + flags[i] + " stands behind an equals sign: --" + flags[i] + "=STEP"}
		}
		return err
	}
}
