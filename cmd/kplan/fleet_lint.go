package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/findings"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet/lint"
	fleetload "github.com/kplan-dev/kplan/fleet/load"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/plan/load"
)

// fleetLint finds what is right in a fleet file and goes wrong later.
type fleetLint struct {
	*app
	output  data.Format
	disable []string
	strict  bool
}

func newFleetLint(a *app) *cobra.Command {
	l := &fleetLint{app: a, output: lintText}
	var in *load.Options
	cmd := &cobra.Command{
		Use:   "lint [FLEET]",
		Short: "Find what lets one fault reach many clusters of a fleet",
		Long: `Look in a fleet file for what its grammar allows and what goes wrong later: no first wave that shows a fault, limits that stop nothing, an image
that is another one tomorrow. Without FLEET it is fleet.yaml of the current folder. No cluster is asked. 'kplan lint' does so for the plan.

Rules:
` + fleetRules() + `
Exit codes: 0 nothing found but warnings and notes, 2 errors, or warnings with --strict.`,
		Example: `  kplan fleet lint
  kplan fleet lint fleet.yaml --strict --disable no-budget
  kplan fleet lint fleet.yaml -o sarif > lint.sarif`,
		Args:              oneFleet,
		ValidArgsFunction: fleetFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := a.chooseFleet(args, false)
			if err != nil {
				return err
			}
			return l.run(path, *in)
		},
	}
	in = addFleetInputs(cmd)
	addFormat(cmd, &l.output, "how to write what was found: text, json, yaml, github or sarif", append([]data.Format{lintText}, findings.Formats...)...)
	cmd.Flags().StringSliceVar(&l.disable, "disable", nil, "leave out the `rules` with these ids")
	cmd.Flags().BoolVar(&l.strict, "strict", false, "exit with 2 for warnings too")
	var ids []string
	for _, r := range lint.Rules {
		ids = append(ids, cobra.CompletionWithDesc(r.ID, r.Summary))
	}
	complete(cmd, "disable", ids...)
	return cmd
}

// fleetRules lists the rules for people.
func fleetRules() string {
	var b strings.Builder
	for _, r := range lint.Rules {
		fmt.Fprintf(&b, "  %-16s %-8s %s\n", r.ID, r.Severity, r.Summary)
	}
	return b.String()
}

func (l *fleetLint) run(path string, in load.Options) error {
	for _, id := range l.disable {
		if !strings.Contains(fleetRules(), "  "+id+" ") {
			return &usageError{err: fmt.Errorf("there is no rule %q", id), hint: "kplan fleet lint --help shows all rules"}
		}
	}
	f, err := l.loadFleet(path, in)
	faults, faulty := errors.AsType[document.Diagnostics](err)
	if err != nil && (!faulty || l.output == lintText) {
		return err
	}
	found := finding.Of(faults)
	if !faulty {
		found = lint.Run(f.Fleet, f, l.disable...)
	}
	if err := l.write(path, f, found); err != nil {
		return err
	}
	for _, x := range found {
		if x.Severity == finding.Error || l.strict && x.Severity == finding.Warning {
			return shown(usagef("the fleet breaks rules"))
		}
	}
	return nil
}

// write writes what was found. The fleet is nil when it cannot be read.
func (l *fleetLint) write(path string, f *fleetload.Fleet, found []finding.Finding) error {
	if l.output != lintText {
		r := findings.Report{
			File: path, Valid: len(found) == 0, Findings: found, Rules: append(finding.Codes(), lint.Rules...),
			Root: os.Getenv("GITHUB_WORKSPACE"), Version: readBuild().Version,
		}
		if f != nil {
			r.Fleet, r.Waves = f.Metadata.Name, len(f.Waves)
		}
		return r.Write(l.stdout, l.output)
	}
	var b strings.Builder
	for _, x := range found {
		b.WriteString(x.String() + "\n")
	}
	fmt.Fprintf(&b, "%s: %s\n", path, foundWords(len(found)))
	_, err := io.WriteString(l.stdout, words.Clean(b.String()))
	return err
}

func foundWords(n int) string {
	if n == 0 {
		return "nothing found"
	}
	return words.Count(n, "finding")
}
