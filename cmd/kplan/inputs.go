package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/plan/load"
)

// addInputs registers the flags that give variables their values.
func addInputs(cmd *cobra.Command) *load.Options {
	var in load.Options
	flags := cmd.Flags()
	flags.StringArrayVar(&in.Set, "set", nil, "give a variable its value, as `name=value`; may be repeated, wins over --var-file.\n"+
		"The value is read as the variable's type, else as that of its default; without one,\ntrue, false, null and whole numbers are what they look like, [a, b] is YAML, all else is text")
	flags.StringArrayVar(&in.VarFiles, "var-file", nil, "read variables from a YAML `file` of name: value; may be repeated, later ones win")
	for flag, f := range map[string]cobra.CompletionFunc{"set": varNames, "var-file": varFiles} {
		completeBy(cmd, flag, f)
	}
	return &in
}

func varFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

// varNames completes the names of the plan's variables, and then the values of one that takes few. A plan that is being written may have
// faults: what can be read of its variables is offered.
func varNames(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	p, _ := load.Vars(namedPlan(args), load.Options{})
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
