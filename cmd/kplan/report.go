package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/outfile"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/report"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// addReports registers --report.
func addReports(cmd *cobra.Command) *[]string {
	var flags []string
	cmd.Flags().StringArrayVar(&flags, "report", nil, "write a report of the run when it is over, as `kind=file`: html, junit, markdown, json, otlp or prometheus; otlp=URL sends it; may be repeated")
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
		next, err := report.ParseFile(flag, os.Getenv)
		if err != nil {
			return nil, &usageError{err: err}
		}
		for _, other := range all {
			if next.To == nil && other.To == nil && outfile.Same(next.Path, other.Path) {
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

// sendReports sends the reports that go to collectors. That these are not taken changes
// nothing of what the run came to: it is told, but to readers of events. What ended the run
// does not end the sending; a further signal does.
func (o *runOptions) sendReports(ctx context.Context, reporter *report.Files, abort <-chan struct{}) {
	if ctx.Err() != nil {
		over, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		defer cancel(nil)
		go func() { // ends with over
			select {
			case <-abort:
				cancel(runner.ErrAborted)
			case <-over.Done():
			}
		}()
		ctx = over
	}
	err := reporter.Send(ctx)
	if mode, e := o.mode(o.progress); e != nil || mode == ui.JSON {
		return
	}
	for _, problem := range split(err) {
		fmt.Fprintf(o.stderr, "warning: %s\n", words.Clean(o.oneLine(problem.Error())))
	}
}
