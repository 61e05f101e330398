package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load"
)

// defaultPlan is the plan of commands that name none.
const defaultPlan = "plan.yaml"

// onePlan is the check of arguments of commands that take a plan.
func onePlan(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("one plan only, not %d: %s", len(args), strings.Join(args, " "))
	}
	return nil
}

// choosePlan returns the plan that a command line names, or plan.yaml of the current
// folder. Which one that is goes to stderr, unless that is quiet.
func (a *app) choosePlan(args []string, quiet bool) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	path, err := filepath.Abs(defaultPlan)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return "", &usageError{
			err:  fmt.Errorf("no PLAN is named, and this folder has no %s", defaultPlan),
			hint: "name one, or write one to start from: " + a.name + " init",
		}
	}
	if !quiet {
		fmt.Fprintf(a.stderr, "note: no PLAN is named: it is %s\n", words.Clean(path))
	}
	return defaultPlan, nil
}

// namedPlan is the plan whose names complete a command line.
func namedPlan(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return defaultPlan
}

// planFiles completes the path of a plan.
func planFiles(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"yaml", "yml", "tar"}, cobra.ShellCompDirectiveFilterFileExt
}

// addInputs registers the flags that give variables their values.
func addInputs(cmd *cobra.Command) *load.Options { return addInputsOf(cmd, namedPlan) }

// addInputsOf is addInputs for a command whose arguments name the plan in another way.
func addInputsOf(cmd *cobra.Command, planOf func(args []string) string) *load.Options {
	var in load.Options
	flags := cmd.Flags()
	flags.StringArrayVar(&in.Set, "set", nil, "give a variable its value, as `name=value`; may be repeated, wins over --var-file.\n"+
		"The value is read as the variable's type, else as that of its default; without one,\ntrue, false, null and whole numbers are what they look like, [a, b] is YAML, all else is text")
	flags.StringArrayVar(&in.VarFiles, "var-file", nil, "read variables from a YAML `file` of name: value, which SOPS may have encrypted; may be repeated, later ones win")
	flags.Var((*helmEngine)(&in.HelmEngine), "helm-engine", "make the releases of all helm steps with this version of Helm, helm3 or helm4, whatever the plan says")
	for flag, f := range map[string]cobra.CompletionFunc{"set": varNames(planOf), "var-file": varFiles, "helm-engine": helmEngines} {
		completeBy(cmd, flag, f)
	}
	return &in
}

// helmEngine is the value of a flag.
type helmEngine plan.HelmEngine

// String, Set and Type implement pflag.Value.
func (e *helmEngine) String() string { return string(*e) }

func (e *helmEngine) Set(name string) error {
	if !slices.Contains(helmEngineNames, name) {
		return fmt.Errorf("must be %s", document.OrList(helmEngineNames))
	}
	*e = helmEngine(name)
	return nil
}

func (e *helmEngine) Type() string { return "helm3|helm4" }

var helmEngineNames = []string{string(plan.Helm3), string(plan.Helm4)}

func helmEngines(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return helmEngineNames, cobra.ShellCompDirectiveNoFileComp
}

func varFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

// varNames completes the names of the plan's variables, and then the values of one that takes few. A plan that is being written may have
// faults: what can be read of its variables is offered.
func varNames(planOf func(args []string) string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		p, _ := load.Vars(planOf(args), load.Options{})
		if p == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		name, _, hasValue := strings.Cut(typed, "=")
		var offers []string
		for _, v := range p.Variables {
			switch {
			case !hasValue:
				offers = append(offers, cobra.CompletionWithDesc(v.Name+"=", strings.Join(strings.Fields(v.Description), " ")))
			case v.Name == name:
				for _, value := range v.Takes() {
					offers = append(offers, v.Name+"="+value)
				}
				return offers, cobra.ShellCompDirectiveNoFileComp
			}
		}
		return offers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}
