package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/outfile"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	fleetload "github.com/kplan-dev/kplan/fleet/load"
	"github.com/kplan-dev/kplan/fleet/record"
)

// fleetRuns finds recorded runs of fleets: those beside the fleet file.
type fleetRuns struct {
	*app
	file string // of --fleet
}

// addFleet registers --fleet.
func (r *fleetRuns) addFleet(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&r.file, "fleet", "f", defaultFleet, "the `file` of the fleet, beside which its runs are recorded")
	cmd.ValidArgsFunction = r.complete
}

func (r *fleetRuns) folder() record.Folder { return record.FolderOf(filepath.Dir(r.file)) }

// find opens a run, the newest one by default: that of the fleet file if there is one. With
// unfinished it is the newest one that has something left to do.
func (r *fleetRuns) find(run string, unfinished bool) (*record.Run, error) {
	if run != "" {
		found, err := r.folder().Open(run)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &usageError{err: fmt.Errorf("there is no run %s beside %s", words.Clean(run), words.Clean(r.file)), hint: r.others()}
		}
		return found, err
	}
	all, err := r.folder().List(r.nameOf())
	if err != nil {
		r.warn("not all runs can be read", err)
	}
	if unfinished {
		all = slices.DeleteFunc(all, func(s record.Summary) bool { return !s.Unfinished() })
	}
	if len(all) == 0 {
		what := "no run"
		if unfinished {
			what = "no unfinished run"
		}
		return nil, &usageError{err: fmt.Errorf("%s of a fleet is recorded beside %s", what, words.Clean(r.file)), hint: "name the fleet file by --fleet"}
	}
	return r.folder().Open(all[0].Run)
}

// others names the newest runs that there are.
func (r *fleetRuns) others() string {
	all, _ := r.folder().List("") // what cannot be read is not offered
	var names []string
	for _, s := range all[:min(len(all), 5)] {
		names = append(names, s.Run)
	}
	switch {
	case len(names) == 0:
		return "there is none; --fleet names another fleet file"
	case len(names) < len(all):
		return "the newest are: " + strings.Join(names, ", ")
	}
	return "there is: " + strings.Join(names, ", ")
}

// fleetCommand is what a user types to have something done to a run of a fleet file, with the
// name of the file where that is not the default one.
func (a *app) fleetCommand(verb, file string, args ...string) string {
	all := []string{a.name, "fleet", verb}
	if here, err := filepath.Abs(defaultFleet); err == nil && file != "" && !outfile.Same(here, file) {
		all = append(all, "-f", file)
	}
	return words.Clean(strings.Join(append(all, args...), " "))
}

// nameOf is the name of the fleet whose file that is; "" when the file cannot be read: then
// all fleets beside it are meant.
func (r *fleetRuns) nameOf() string {
	src, err := os.ReadFile(r.file)
	if err != nil {
		return ""
	}
	f, err := fleetload.Parse(r.file, src)
	if err != nil {
		return ""
	}
	return f.Metadata.Name
}

// complete completes the IDs of recorded runs.
func (r *fleetRuns) complete(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, _ := r.folder().List("")
	var offers []string
	for _, s := range all {
		offers = append(offers, cobra.CompletionWithDesc(s.Run, s.Fleet+" "+string(s.State)))
	}
	return offers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// oneRun is the check of arguments of commands that take a run.
func oneRun(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("one run only, not %d", len(args))
	}
	return nil
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
