package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
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
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}
