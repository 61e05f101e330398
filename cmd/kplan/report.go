package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/outfile"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/report"
	"github.com/kplan-dev/kplan/plan"
)

// addReports registers --report.
func addReports(cmd *cobra.Command) *[]string {
	var flags []string
	cmd.Flags().StringArrayVar(&flags, "report", nil, "write a report of the run when it is over, as `kind=file`: html, junit, markdown or json; may be repeated")
	completeBy(cmd, "report", reportKinds)
	return &flags
}

// reportKinds completes the kinds of reports, and a name for the file.
func reportKinds(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	var offers []string
	kind, _, hasFile := strings.Cut(typed, "=")
	for _, k := range report.Kinds {
		switch {
		case !hasFile:
			offers = append(offers, string(k)+"=")
		case string(k) == kind:
			return []string{kind + "=report" + k.Ext()}, cobra.ShellCompDirectiveDefault
		}
	}
	return offers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// parseReports reads the values of --report. Every report needs a file of its own.
func parseReports(flags []string) ([]report.File, error) {
	var all []report.File
	for _, flag := range flags {
		next, err := report.ParseFile(flag)
		if err != nil {
			return nil, &usageError{err: err}
		}
		for _, other := range all {
			if outfile.Same(next.Path, other.Path) {
				return nil, &usageError{err: fmt.Errorf("%s and %s are the same file", other, next), hint: "name another file"}
			}
		}
		all = append(all, next)
	}
	return all, nil
}

// refuseReportsOver refuses reports over a file that is read, or written to as well.
func refuseReportsOver(reports []report.File, reads []plan.Read) error {
	for _, r := range reports {
		if err := refuseOver(r.String(), r.Path, reads); err != nil {
			return err
		}
	}
	return nil
}

// refuseOver refuses to write a flag's file over one that is read. Without a path there
// is none.
func refuseOver(flag, path string, reads []plan.Read) error {
	for _, r := range reads {
		if path != "" && r.Path != "" && outfile.Same(path, r.Path) {
			return &usageError{err: fmt.Errorf("%s would overwrite %s", flag, r.What), hint: "name another file"}
		}
	}
	return nil
}
