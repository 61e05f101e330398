package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	fleetload "github.com/kplan-dev/kplan/fleet/load"
	"github.com/kplan-dev/kplan/plan/load"
)

// defaultFleet is the fleet file of commands that name none.
const defaultFleet = "fleet.yaml"

// oneFleet is the check of arguments of commands that take a fleet file.
func oneFleet(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("one fleet only, not %d: %s", len(args), strings.Join(args, " "))
	}
	return nil
}

// chooseFleet returns the fleet file that a command line names, or fleet.yaml of the current
// folder. Which one that is goes to stderr, unless that is quiet.
func (a *app) chooseFleet(args []string, quiet bool) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	path, err := filepath.Abs(defaultFleet)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return "", &usageError{err: fmt.Errorf("no FLEET is named, and this folder has no %s", defaultFleet), hint: "name one"}
	}
	if !quiet {
		fmt.Fprintf(a.stderr, "note: no FLEET is named: it is %s\n", words.Clean(path))
	}
	return defaultFleet, nil
}

// fleetFiles completes the path of a fleet file.
func fleetFiles(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

// addFleetInputs registers the flags that give variables of a fleet's plan their values.
func addFleetInputs(cmd *cobra.Command) *load.Options {
	return addInputsOf(cmd, func(args []string) string {
		if len(args) > 0 {
			return fleetload.PlanOf(args[0])
		}
		return fleetload.PlanOf(defaultFleet)
	})
}

// loadFleet reads a fleet file.
func (a *app) loadFleet(path string, in load.Options) (*fleetload.Fleet, error) {
	in.Decrypter = a.keys
	return fleetload.File(path, in)
}
