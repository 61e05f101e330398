package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/findings"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/doctor"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/analyze"
)

// never is the severity of --fail-on that no finding has.
const never = "never"

// doctorOptions are the flags of kplan doctor.
type doctorOptions struct {
	*app
	in            *load.Options
	output        data.Format
	only, disable []string
	explain       string
	failOn        string
	fix, undo     string
	object        string
	list, watch   bool
	yes           bool
	interval      time.Duration
	timeout       time.Duration
}

func newDoctor(a *app) *cobra.Command {
	o := &doctorOptions{app: a, output: formatTable}
	cmd := &cobra.Command{
		Use:   "doctor [PLAN]",
		Short: "Find what is wrong with a cluster: webhooks, certificates, hooks, releases",
		Long: `Look in a cluster for what makes installs fail or wait: webhooks that cannot be called or guard what they need themselves, CA bundles
that do not fit, certificates that are not issued, Secrets that pods wait for, hooks that cannot end, objects that cannot go, releases
that are stuck, definitions that are not served. Each finding says which fields it was read from, and what to do next.

Only reads are sent: no dry runs, and nothing is written. What may not be read is named, and nothing is guessed about it.
--fix CHECK:OBJECT is for findings with a remedy that is safe and can be taken back: it shows the change, asks, records it in the
namespace kplan-system, and makes it; --undo shows and takes it back, if nobody changed the object meanwhile.
With -n only that namespace is looked at, and what has none; with PLAN the clusters and namespaces of its steps.

Exit codes: 0 nothing found but warnings and notes (see --fail-on), 1 errors, or webhooks may not be read, 2 bad plan or usage.`,
		Example: `  kplan doctor
  kplan doctor -n cert-manager
  kplan doctor plan.yaml --fail-on warning
  kplan doctor --list
  kplan doctor --explain webhook-ca-missing
  kplan doctor --why-not-called widget.yaml
  kplan doctor --fix webhook-service-gone:ValidatingWebhookConfiguration/old
  kplan doctor --undo webhook-service-gone:ValidatingWebhookConfiguration/old
  kplan doctor -o markdown > findings.md
  kplan doctor -o json | jq -r '.findings[] | .object + ": " + .message'`,
		Args:              onePlan,
		ValidArgsFunction: planFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.list:
				return o.writeList()
			case o.explain != "":
				return o.writeExplanation()
			}
			return o.run(cmd.Context(), args)
		},
	}
	o.in = addInputs(cmd)
	o.addFlags(cmd)
	return cmd
}

func (o *doctorOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&o.only, "check", nil, "do only the `checks` with these ids")
	flags.StringSliceVar(&o.disable, "disable", nil, "leave out the `checks` with these ids")
	flags.StringVar(&o.explain, "explain", "", "say what the `check` with this id is about, and do nothing else")
	flags.BoolVar(&o.list, "list", false, "list all checks, and do nothing else")
	flags.StringVar(&o.failOn, "fail-on", string(finding.Error), "exit with 1 for findings of this `severity` or worse: error, warning, note or never")
	flags.StringVar(&o.object, "why-not-called", "", "tell for the objects in a YAML `file` which webhooks are called when they are written, and why others are not; - is standard input")
	flags.StringVar(&o.fix, "fix", "", "mend the `finding` with this id, as CHECK:OBJECT")
	flags.StringVar(&o.undo, "undo", "", "take back what --fix changed for the `finding` with this id")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask before --fix or --undo changes something")
	flags.BoolVarP(&o.watch, "watch", "w", false, "look again until ^C: all findings anew on a terminal, else what came and what went")
	flags.DurationVar(&o.interval, "interval", 5*time.Second, "the time between two looks of --watch")
	flags.DurationVar(&o.timeout, "timeout", 30*time.Second, "how long one look may take")
	addFormat(cmd, &o.output, "how to write what was found: table, json, yaml, markdown or sarif", formatTable, data.JSON, data.YAML, findings.Markdown, findings.SARIF)
	var checks []string
	for _, c := range doctor.Checks() {
		checks = append(checks, cobra.CompletionWithDesc(c.ID, c.Summary))
	}
	complete(cmd, "check", checks...)
	complete(cmd, "disable", checks...)
	complete(cmd, "explain", checks...)
	complete(cmd, "fail-on", string(finding.Error), string(finding.Warning), string(finding.Note), never)
}

// severities are those of --fail-on, the worst first.
var severities = []string{string(finding.Error), string(finding.Warning), string(finding.Note)}

func (o *doctorOptions) writeList() error {
	var b strings.Builder
	for _, c := range doctor.Checks() {
		fmt.Fprintf(&b, "%-28s %-8s %s\n", c.ID, c.Severity, c.Summary)
	}
	_, err := io.WriteString(o.stdout, b.String())
	return err
}

func (o *doctorOptions) writeExplanation() error {
	i := slices.IndexFunc(doctor.Checks(), func(c doctor.Check) bool { return c.ID == o.explain })
	if i < 0 {
		return o.unknown(o.explain)
	}
	c := doctor.Checks()[i]
	_, err := fmt.Fprintf(o.stdout, "%s (%s): %s\n\n%s\n", c.ID, c.Severity, c.Summary, words.Fill(c.Explanation, 100, ""))
	return err
}

func (o *doctorOptions) unknown(id string) error {
	return &usageError{err: fmt.Errorf("there is no check %q", id), hint: o.name + " doctor --list shows all checks"}
}

// checks are those that the flags leave.
func (o *doctorOptions) checks() ([]doctor.Check, error) {
	all := doctor.Checks()
	for _, id := range slices.Concat(o.only, o.disable) {
		if !slices.ContainsFunc(all, func(c doctor.Check) bool { return c.ID == id }) {
			return nil, o.unknown(id)
		}
	}
	all = slices.DeleteFunc(all, func(c doctor.Check) bool {
		return len(o.only) > 0 && !slices.Contains(o.only, c.ID) || slices.Contains(o.disable, c.ID)
	})
	modes := 0
	for _, given := range []bool{o.watch, o.object != "", o.fix != "", o.undo != ""} {
		if given {
			modes++
		}
	}
	switch {
	case len(all) == 0:
		return nil, usagef("no check is left to do")
	case o.failOn != never && !slices.Contains(severities, o.failOn):
		return nil, usagef("--fail-on: there is no severity %q, only error, warning, note and never", o.failOn)
	case o.watch && o.output != formatTable && o.output != data.JSON:
		return nil, usagef("--watch cannot write %s, only table and json", o.output)
	case modes > 1:
		return nil, usagef("only one of --watch, --why-not-called, --fix and --undo")
	case o.interval <= 0 || o.timeout <= 0:
		return nil, usagef("--interval and --timeout must be positive")
	}
	return all, nil
}

func (o *doctorOptions) run(ctx context.Context, args []string) error {
	checks, err := o.checks()
	if err != nil {
		return err
	}
	ctx, signals := interrupt.Context(ctx)
	defer signals.Release()
	places, done, err := o.places(ctx, args)
	if err != nil {
		return stopped(ctx, err)
	}
	defer done()
	e := &examination{doctorOptions: o, checks: checks, places: places}
	switch {
	case o.watch:
		return stopped(ctx, e.watch(ctx))
	case o.object != "":
		return stopped(ctx, e.calls(ctx))
	case o.fix != "":
		return stopped(ctx, e.mend(ctx))
	case o.undo != "":
		return stopped(ctx, e.takeBack(ctx))
	}
	r, err := e.look(ctx)
	if err != nil {
		return stopped(ctx, err)
	}
	if err := e.write(o.stdout, r); err != nil {
		return err
	}
	return o.judge(r)
}

// places are the clusters to look at, and the namespaces in each.
func (o *doctorOptions) places(ctx context.Context, args []string) (_ []analyze.Place, done func(), _ error) {
	if len(args) == 0 {
		here, err := analyze.Here(ctx, o.flags, userAgent())
		return []analyze.Place{here}, func() {}, err
	}
	p, err := o.read(args[0], *o.in)
	if err != nil {
		return nil, nil, &usageError{err: err}
	}
	return analyze.Places(ctx, p, o.flags, userAgent())
}

// judge says by the error whether a finding is as bad as --fail-on, or webhooks could not
// be looked at.
func (o *doctorOptions) judge(d findings.Diagnosis) error {
	bad := slices.Index(severities, o.failOn)
	switch {
	case slices.ContainsFunc(d.Findings, func(f finding.Finding) bool { return slices.Index(severities, string(f.Severity)) <= bad }):
		return shown(errors.New("the cluster has faults"))
	case d.Blind && o.failOn != never:
		return runner.WithHint(errors.New("the webhook configurations could not be read"), "nothing is known of webhooks without the right to get and list "+
			"mutatingwebhookconfigurations and validatingwebhookconfigurations; --fail-on never exits with 0 all the same")
	}
	return nil
}
