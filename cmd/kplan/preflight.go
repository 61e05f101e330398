package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// The values of --preflight.
const (
	preflightWarn = "warn"
	preflightFail = "fail"
	preflightOff  = "off"
)

var preflights = []string{preflightWarn, preflightFail, preflightOff}

// addPreflight registers --preflight; refuses says for what fail refuses to begin.
func addPreflight(cmd *cobra.Command, value *string, refuses string) {
	cmd.Flags().StringVar(value, "preflight", preflightWarn,
		"what to do about missing rights, webhooks that nobody is behind and the like:\nwarn (looks while the first steps begin), fail ("+refuses+") or off")
	complete(cmd, "preflight", preflights...)
}

// checkPreflight refuses values that mean nothing.
func checkPreflight(value string) error {
	if value != "" && !slices.Contains(preflights, value) {
		return usagef("--preflight: there is no %q, only %s", value, document.OrList(preflights))
	}
	return nil
}

// refusedError says that a run did not begin because of what was found before it.
type refusedError struct{ found []finding.Finding }

func (e *refusedError) Error() string {
	var texts []string
	for _, f := range e.found {
		text := f.Message
		if f.Step != "" {
			text = fmt.Sprintf("step %q: %s", f.Step, text)
		}
		texts = append(texts, text)
	}
	return fmt.Sprintf("preflight refuses to begin, and nothing was written: %s: %s", words.Count(len(texts), "fault"), strings.Join(texts, "; "))
}

// Hint says what to do about it.
func (e *refusedError) Hint() string {
	hint := "--preflight warn begins nevertheless"
	if len(e.found) == 1 && e.found[0].Hint != "" {
		hint = e.found[0].Hint + "; " + hint
	}
	return hint
}

// Final says that nothing of the run may start, its finally steps included.
func (e *refusedError) Final() bool { return true }

// foundOf is a finding as the run tells it.
func foundOf(f finding.Finding) runner.Found {
	found := runner.Found{
		Finding: runner.Finding{Code: f.Rule, Severity: string(f.Severity)},
		Step:    f.Step, Object: f.Object, Message: words.Line(f.Message), Hint: words.Line(f.Hint),
	}
	if f.InFile() {
		found.File, found.Line, found.Column = f.File, f.Line, f.Col
	}
	for _, e := range f.Evidence {
		found.Evidence = append(found.Evidence, runner.Evidence(e))
	}
	return found
}

// looks has a run look for what keeps steps from their work. With fail it is looked now,
// before anything is written, and the error refuses the run if there is something that
// counts; else while the first steps begin.
func looks(ctx context.Context, mode string, r *runner.Runner, counts func(finding.Finding) bool, look func(context.Context, func(finding.Finding))) error {
	switch mode {
	case preflightWarn:
		r.Look = func(ctx context.Context, found func(runner.Found)) {
			look(ctx, func(f finding.Finding) { found(foundOf(f)) })
		}
	case preflightFail:
		refused := &refusedError{}
		look(ctx, func(f finding.Finding) {
			r.Findings = append(r.Findings, foundOf(f))
			if counts(f) {
				refused.found = append(refused.found, f)
			}
		})
		if len(refused.found) > 0 {
			return refused
		}
	}
	return nil
}

// preflighted looks at a plan that is about to run; kinds have no lock yet with fail, and take
// it if the run may begin.
func (o *runOptions) preflighted(ctx context.Context, kinds *steps.Steps, r *runner.Runner) error {
	how := steps.Preflight{Records: slices.Contains(o.recordIn, inCluster), Strict: o.preflight == preflightFail}
	isError := func(f finding.Finding) bool { return f.Severity == finding.Error }
	err := looks(ctx, o.preflight, r, isError, func(ctx context.Context, found func(finding.Finding)) { kinds.Preflight(ctx, how, found) })
	if err == nil && o.preflight == preflightFail {
		err = kinds.TakeLocks(ctx)
	}
	return err
}
