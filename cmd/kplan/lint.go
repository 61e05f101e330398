package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/findings"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/plan/lint"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/steps/analyze"
)

// lintText is the format for people.
const lintText data.Format = "text"

// lintRun is one call of kplan lint.
type lintRun struct {
	*app
	path    string
	in      load.Options
	output  data.Format
	disable []string
	explain string
	fix     string

	list, diff, offline, strict bool

	partial bool // not all of the plan was looked at
}

func newLint(a *app) *cobra.Command {
	l := &lintRun{app: a, output: lintText}
	var in *load.Options
	cmd := &cobra.Command{
		Use:   "lint [PLAN]",
		Short: "Find what goes wrong in a plan without faults",
		Long: `Look in a plan for what its grammar allows and what goes wrong later: races that nothing waits for, waits that never end, values
that mean something else than they seem, secrets in plain text. Without PLAN it is plan.yaml of the current folder. No cluster is asked. Charts are
rendered, and fetched where they are not local.

Each finding goes to stdout as file:line:col: severity: message [rule], with the line and a hint; with -o as data, as for validate.
A comment "# kplan:ignore RULE reason" silences a rule on its line, or alone on the line above.

--fix adds a wait step wherever pods use the Secret of a Certificate that nothing waits for; --fix=init-container lets the pods
wait, in the files of apply steps. Both print what they change as a diff, and change nothing else in the files.

Exit codes: 0 nothing found but warnings and notes, 2 errors, or warnings with --strict.`,
		Example: `  kplan lint plan.yaml
  kplan lint plan.yaml --strict --disable unpinned-chart,yaml-1.1
  kplan lint --explain secret-before-certificate
  kplan lint plan.yaml --diff
  kplan lint plan.yaml --fix=init-container
  kplan lint plan.yaml --offline -o sarif > lint.sarif`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 && cmd.Flags().Changed("fix") {
				if i := slices.IndexFunc(args, func(arg string) bool { return slices.Contains(lint.Remedies, lint.Remedy(arg)) }); i >= 0 {
					return fmt.Errorf("one plan only: the remedy is part of the flag, --fix=%s", args[i])
				}
			}
			return onePlan(cmd, args)
		},
		ValidArgsFunction: planFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			l.in = *in
			if err := l.check(); err != nil {
				return err
			}
			switch {
			case l.list:
				return l.writeList()
			case l.explain != "":
				return l.writeExplanation()
			}
			path, err := l.choosePlan(args, false)
			if err != nil {
				return err
			}
			l.path = path
			return l.run(cmd.Context())
		},
	}
	in = addInputs(cmd)
	l.addFetching(cmd)
	l.addFlags(cmd)
	return cmd
}

func (l *lintRun) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	addFormat(cmd, &l.output, "how to write what was found: text, json, yaml, github or sarif", append([]data.Format{lintText}, findings.Formats...)...)
	flags.StringSliceVar(&l.disable, "disable", nil, "leave out the `rules` with these ids")
	flags.StringVar(&l.explain, "explain", "", "say what the `rule` with this id is about, and do nothing else")
	flags.BoolVar(&l.list, "list", false, "list all rules, and do nothing else")
	flags.StringVar(&l.fix, "fix", "", "mend what can be mended: wait adds wait steps to the plan, init-container lets pods in files wait")
	flags.Lookup("fix").NoOptDefVal = string(lint.WaitStep)
	flags.BoolVar(&l.diff, "diff", false, "show what --fix changes, and write nothing")
	flags.BoolVar(&l.offline, "offline", false, "fetch no charts; what is in those that are not local is not looked at")
	flags.BoolVar(&l.strict, "strict", false, "exit with 2 for warnings too")
	var rules []string
	for _, r := range lint.Rules() {
		rules = append(rules, cobra.CompletionWithDesc(r.ID, r.Summary))
	}
	complete(cmd, "disable", rules...)
	complete(cmd, "explain", rules...)
	complete(cmd, "fix", string(lint.WaitStep), string(lint.InitContainer))
}

// check looks at the flags.
func (l *lintRun) check() error {
	if l.diff && l.fix == "" {
		l.fix = string(lint.WaitStep)
	}
	if l.fix != "" && !slices.Contains(lint.Remedies, lint.Remedy(l.fix)) {
		return usagef("there is no remedy %q, only wait and init-container", l.fix)
	}
	ids := l.disable
	if l.explain != "" {
		ids = append(slices.Clone(ids), l.explain)
	}
	for _, id := range ids {
		if _, known := lint.Find(id); !known {
			return &usageError{err: fmt.Errorf("there is no rule %q", id), hint: "kplan lint --list shows all rules"}
		}
	}
	return nil
}

func (l *lintRun) writeList() error {
	var b strings.Builder
	for _, r := range lint.Rules() {
		fmt.Fprintf(&b, "%-26s %-8s %s\n", r.ID, r.Severity, r.Summary)
	}
	_, err := io.WriteString(l.stdout, b.String())
	return err
}

func (l *lintRun) writeExplanation() error {
	r, _ := lint.Find(l.explain)
	_, err := fmt.Fprintf(l.stdout, "%s (%s): %s\n\n%s\n", r.ID, r.Severity, r.Summary, words.Fill(r.Explanation, 100, ""))
	return err
}

func (l *lintRun) run(ctx context.Context) error {
	p, input, found, err := l.look(ctx)
	if err != nil {
		return l.faults(err)
	}
	if l.fix != "" {
		changed, err := l.applyFix(input, found)
		if err != nil {
			return err
		}
		if changed {
			if p, _, found, err = l.look(ctx); err != nil {
				return fmt.Errorf("reading the mended plan: %w", err)
			}
		}
	}
	return l.report(p, found)
}

// look reads the plan and what its steps bring, and applies the rules.
func (l *lintRun) look(ctx context.Context) (*plan.Plan, lint.Input, []finding.Finding, error) {
	p, err := l.read(l.path, l.in)
	if err != nil {
		return nil, lint.Input{}, nil, err
	}
	from, err := l.sources(p)
	if err != nil {
		return nil, lint.Input{}, nil, err
	}
	input, err := analyze.LintInput(ctx, p, from, l.offline)
	if ctx.Err() != nil {
		return nil, lint.Input{}, nil, context.Cause(ctx)
	}
	input.Locked = l.lockedIn(p)
	l.partial = err != nil || len(input.Unread) > 0
	l.warn("not all is looked at", err)
	return p, input, lint.Run(input, l.disable...), nil
}

// faults shows why the plan could not be read, as data where that is wanted.
func (l *lintRun) faults(err error) error {
	faults, ok := errors.AsType[document.Diagnostics](err)
	if l.output == lintText || !ok {
		return err
	}
	return cmp.Or(l.writeFindings(l.output, l.path, nil, finding.Of(faults), allRules()), shown(err))
}

// allRules are those of reading and of linting a plan.
func allRules() []finding.Rule { return append(finding.Codes(), lint.Rules()...) }

// report writes what was found.
func (l *lintRun) report(p *plan.Plan, found []finding.Finding) error {
	count := map[finding.Severity]int{}
	mask := l.secrets().Text
	for i := range found {
		f := &found[i]
		count[f.Severity]++
		f.Path, f.Message, f.Hint, f.Excerpt = mask(f.Path), mask(f.Message), mask(f.Hint), mask(f.Excerpt)
	}
	var err error
	if l.output == lintText {
		err = l.writeText(found, count)
	} else {
		err = l.writeFindings(l.output, l.path, p, found, allRules())
	}
	if err == nil && (count[finding.Error] > 0 || l.strict && count[finding.Warning] > 0) {
		err = shown(usagef("the plan breaks rules"))
	}
	return err
}

func (l *lintRun) writeText(found []finding.Finding, count map[finding.Severity]int) error {
	var b strings.Builder
	for _, f := range found {
		b.WriteString(f.String() + "\n")
	}
	b.WriteString(l.path + ": ")
	switch {
	case len(found) == 0 && l.partial:
		b.WriteString("nothing found in what was looked at\n")
	case len(found) == 0:
		b.WriteString("nothing found\n")
	default:
		fmt.Fprintf(&b, "%s, %s", words.Count(count[finding.Error], "error"), words.Count(count[finding.Warning], "warning"))
		if n := count[finding.Note]; n > 0 {
			fmt.Fprintf(&b, ", %s", words.Count(n, "note"))
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(l.stdout, words.Clean(b.String()))
	return err
}
