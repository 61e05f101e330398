package main

import (
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/plan"
)

// addInputs registers the flags that give variables their values.
func addInputs(cmd *cobra.Command) *plan.Inputs {
	var in plan.Inputs
	flags := cmd.Flags()
	flags.StringArrayVar(&in.Set, "set", nil, "give a variable its value, as `name=value`; may be repeated, wins over --var-file.\n"+
		"The value takes the type of the variable's default; without one,\ntrue, false, null and whole numbers are what they look like, [a, b] is YAML, all else is text")
	flags.StringArrayVar(&in.VarFiles, "var-file", nil, "read variables from a YAML `file` of name: value; may be repeated, later ones win")
	for flag, f := range map[string]cobra.CompletionFunc{"set": varNames, "var-file": varFiles} {
		if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
			panic(err) // the flag does not exist: a fault of this program
		}
	}
	return &in
}

func varFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

// varNames completes the names of the plan's variables, once the plan is given.
func varNames(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 || strings.Contains(typed, "=") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	f, err := os.Open(args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, 1<<20))
	// A plan that is being written may have faults, so only its vars are read.
	var head struct {
		Vars map[string]plan.Var `json:"vars"`
	}
	if err != nil || yaml.Unmarshal(src, &head) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(head.Vars)) {
		names = append(names, cobra.CompletionWithDesc(name+"=", strings.Join(strings.Fields(head.Vars[name].Description), " ")))
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
