package member

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// MaxResult is how many bytes a result has at most as JSON: the room in a pod's termination
// message.
const MaxResult = 4 << 10

// conclude says what became of the run.
func (m *member) conclude(ctx context.Context, x *runner.Execution, err error) {
	r := m.result
	r.Ended = time.Now().UTC()
	r.HeldSeconds = m.fold.held(r.Ended).Seconds()
	if x != nil {
		r.Steps = map[string]int{}
		for state, n := range x.Counts() {
			r.Steps[string(state)] = n
		}
	}
	switch {
	case err == nil:
		r.State = fleet.Succeeded
		if !m.fold.changed {
			r.State = fleet.Unchanged
		}
	case stopped(ctx, err) && m.fold.failed == "":
		r.State = fleet.Cancelled
		r.Error, r.Hint = m.hide(oneLine(err)), ""
	default:
		m.fail(err)
	}
	fit(r)
}

// stopped reports whether somebody stopped the run, and no lock that was lost.
func stopped(ctx context.Context, err error) bool {
	lost := (*ledger.LostError)(nil)
	return context.Cause(ctx) != nil && !errors.As(err, &lost) || errors.Is(err, runner.ErrAborted)
}

// fail says why the run failed.
func (m *member) fail(err error) {
	why := err
	for _, e := range split(err) {
		if failed, is := errors.AsType[*runner.StepError](e); is && failed.Step == m.fold.failed {
			why = failed.Err
		}
	}
	m.result.State = fleet.Failed
	m.result.Error, m.result.Hint = m.hide(oneLine(why)), m.hide(runner.HintOf(why))
	text := why.Error()
	if faults, is := errors.AsType[document.Diagnostics](why); is {
		text = faults[0].Message
	}
	m.result.Cause = fleet.NewCause(m.class(why), m.fold.failed, m.hide(text), m.own()...)
}

// class is the kind of a failure.
func (m *member) class(err error) fleet.Class {
	switch f := steps.FailureOf(err); {
	case f != steps.FailureOther:
		return classes[f]
	case m.fold.failed == "" && !m.fold.began:
		return fleet.BadPlan // of what comes before the first step the rest has a kind
	}
	return fleet.StepFailed
}

var classes = map[steps.Failure]fleet.Class{
	steps.FailureUnreachable: fleet.Unreachable,
	steps.FailureRefused:     fleet.Refused,
	steps.FailureMoved:       fleet.Moved,
	steps.FailureLocked:      fleet.Locked,
	steps.FailureWebhook:     fleet.WebhookTimeout,
	steps.FailureTimeout:     fleet.Timeout,
	steps.FailureForbidden:   fleet.Forbidden,
	steps.FailurePlan:        fleet.BadPlan,
}

// own are names that the cluster alone has.
func (m *member) own() []string {
	c := m.Cluster
	all := append([]string{c.Name, c.Server}, m.Own...)
	if secret := c.Access.Secret; secret != nil {
		all = append(all, secret.Namespace+"/"+secret.Name, secret.Name)
	}
	return append(all, c.Access.Context, m.ID)
}

// split returns the errors that errors.Join put together.
func split(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // only the outermost
		return many.Unwrap()
	}
	return []error{err}
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// fit cuts a result's texts until it has at most MaxResult bytes as JSON.
func fit(r *fleet.Result) {
	for most := 1600; ; most /= 2 {
		r.Error, r.Hint = cut(r.Error, most), cut(r.Hint, most/2)
		if r.Cause != nil && most < 1000 {
			r.Cause.Text = cut(r.Cause.Text, most)
		}
		if b, err := json.Marshal(r); err != nil || len(b) <= MaxResult || most < 8 {
			return
		}
	}
}

// cut shortens a text to so many bytes.
func cut(text string, most int) string {
	const mark = "…"
	if len(text) <= most {
		return text
	}
	text = text[:max(most-len(mark), 0)]
	for len(text) > 0 && !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + mark
}
