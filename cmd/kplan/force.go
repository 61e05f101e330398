package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
)

const (
	forceUpgrade = "force-upgrade"
	// everyStep is what the flag means without a value. No step has this name.
	everyStep = "*"
)

// addForce registers the flag that upgrades releases for which nothing changed.
func addForce(cmd *cobra.Command, in *load.Options) *[]string {
	// Names of steps may have commas in them: NAME[ITEM].
	names := cmd.Flags().StringArray(forceUpgrade, nil, "upgrade the release of this helm `step` also when its chart and values did not change;\n"+
		"may be repeated, all helm steps without =step")
	cmd.Flags().Lookup(forceUpgrade).NoOptDefVal = everyStep
	helm := func(p *plan.Plan) []string { return p.StepNamesOf(plan.KindHelm) }
	completeBy(cmd, forceUpgrade, fromPlan(in, helm))
	return names
}

// forcedSteps returns the names of the steps that the flag means.
func forcedSteps(p *plan.Plan, names []string) (map[string]bool, error) {
	if slices.Contains(names, everyStep) {
		names = p.StepNamesOf(plan.KindHelm)
	}
	found, err := p.Named("--"+forceUpgrade, plan.KindHelm, names...)
	if err != nil {
		return nil, &usageError{err: err}
	}
	return found, nil
}

// oneForcedPlan is onePlan that knows what it means when the flag's step stands
// behind a blank: a flag whose value may be left out does not look for it there.
func oneForcedPlan(cmd *cobra.Command, args []string) error {
	err := onePlan(cmd, args)
	if len(args) > 1 && cmd.Flags().Changed(forceUpgrade) {
		return &usageError{err: err, hint: "the step of --" + forceUpgrade + " stands behind an equals sign: --" + forceUpgrade + "=STEP"}
	}
	return err
}
