package webhookgate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/internal/clean"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/diagnosis"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/steps/internal/watch"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/hold"
	"github.com/kplan-dev/kplan/webhook/probe"
	"github.com/kplan-dev/kplan/webhook/survey"
)

const (
	// look is the distance of tries where requests are not held.
	look = 250 * time.Millisecond
	// steady is the distance of two answers that prove stability.
	steady = 100 * time.Millisecond
	// settle is how long after a configuration was seen first its webhooks are
	// not asked, so that every API server knows it: one that does not admits
	// objects without asking. A configuration of settled age is known.
	settle, settled = time.Second, 10 * time.Second
)

// gate waits for one webhook.
type gate struct {
	*run
	view  *view
	known *knowledge
	entry webhook.Entry
	// fresh connects anew for each request, and holds none.
	fresh dynamic.Interface
	// began is when the webhook was seen first.
	began time.Time
	probe *probe.Probe
	// last is what was shown last.
	last probe.Outcome
	// unproven says why it could not be shown that the webhook answers, though
	// everything that can be read is in order.
	unproven string
	// waited says that the webhook did not answer at once.
	waited atomic.Bool
}

// wait returns when the webhook answers, or when nothing can show whether it does.
func (g *gate) wait(ctx context.Context) error {
	g.probe = probe.New(g.means(ctx), g.entry) // for checkCanaries
	for {
		if err := g.climb(ctx); err != nil {
			return err
		}
		if age := time.Since(g.entry.Created); age < settled {
			g.waited.Store(true)
			if err := watch.Pause(ctx, time.Until(g.began.Add(settle))); err != nil {
				return err
			}
		}
		if err := g.known.refresh(ctx); err != nil { // a namespace may have come since
			return g.explain(ctx, err, g.last)
		}
		g.probe = probe.New(g.means(ctx), g.entry)
		o, err := g.first(ctx)
		if err != nil {
			return err
		}
		switch o.State {
		case probe.Missing:
			g.waited.Store(true)
			continue // it fell off the ladder
		case probe.Unproven:
			g.unproven = o.Reason
			return g.barred(o)
		case probe.Proven:
		}
		if stable, err := g.stable(ctx); stable || err != nil {
			return err
		}
		g.waited.Store(true)
	}
}

func (g *gate) means(ctx context.Context) probe.Config {
	return probe.Config{
		Mapper: g.known.mapper(ctx), Matcher: g.known.matcher, Known: g.survey.Entries(), Wanted: g.view.wants,
		Canaries: g.objects.canaries, Objects: slices.Concat(g.objects.files, g.objects.later), Unlabelled: g.known.blind(),
	}
}

// barred is an error if nothing could be shown of a webhook for want of rights,
// though it fails requests when it does not answer.
func (g *gate) barred(o probe.Outcome) error {
	if !o.Forbidden || g.entry.FailurePolicy == admissionv1.Ignore {
		return nil
	}
	return runner.WithHint(runner.Permanent(fmt.Errorf("%s cannot be asked: %s", g.entry, clean.Line(o.Reason))),
		"a dry run needs the rights to list namespaces and to create what the webhook is called for, by kplan's user; the objects of canaries are asked with first")
}

// climb waits for the rungs that can be read.
func (g *gate) climb(ctx context.Context) error {
	for {
		changed := g.view.next()
		st, err := g.status()
		if err != nil {
			return err
		}
		g.entry = st.Entry
		if st.Ladder.Callable() {
			return nil
		}
		g.waited.Store(true)
		g.report(diagnosis.Of(st))
		if err := changed(ctx); err != nil {
			return g.timedOut(err, st, diagnosis.Lacks(st.Ladder), g.owners.Hint(st, webhook.Fault{}))
		}
	}
}

// status is how the webhook stands now.
func (g *gate) status() (survey.Status, error) {
	for _, st := range g.view.Statuses() {
		if st.Is(g.entry) {
			return st, nil
		}
	}
	return survey.Status{}, fmt.Errorf("%s is gone: its configuration was changed or deleted meanwhile", g.entry)
}

// first waits for the first answer, or until nothing can show one. With the hold
// that is mostly one request, which comes back when the webhook answers or was
// given up; where nothing is held it asks again and again. It comes back with
// Missing when the webhook fell off the ladder.
func (g *gate) first(ctx context.Context) (probe.Outcome, error) {
	asking := hold.WithNotify(ctx, func(n hold.Notice) {
		if n.Event == hold.Held {
			g.waited.Store(true)
		}
	})
	for {
		changed := g.view.next()
		o, err := g.probe.Ask(asking, g.client())
		if err != nil {
			return o, g.explain(ctx, err, g.last)
		}
		st, err := g.tell(o)
		if err != nil || o.State != probe.Missing || !st.Ladder.Callable() {
			return o, err
		}
		g.waited.Store(true)
		if err := either(ctx, changed, look); err != nil {
			return o, g.timedOut(err, st, admitting(o), g.hint(st, o))
		}
		if err := g.known.refresh(ctx); err != nil {
			return o, g.explain(ctx, err, g.last)
		}
	}
}

// client is the one for first answers. A made-up object that cannot be converted
// looks like a conversion webhook that fails: it is not held for.
func (g *gate) client() dynamic.Interface {
	if g.entry.Kind == webhook.Conversion {
		return g.fresh
	}
	return g.session.Dynamic
}

// stable asks for the other answers in a row that the step wants. They go past
// the hold, so that a missing one is seen, and over connections of their own.
func (g *gate) stable(ctx context.Context) (bool, error) {
	for n := 1; n < g.spec.Stable; n++ {
		if err := watch.Pause(ctx, steady); err != nil {
			return false, g.explain(ctx, err, g.some(n))
		}
		o, err := g.probe.Ask(ctx, g.fresh)
		if status := apierrors.APIStatus(nil); err != nil && ctx.Err() == nil && !errors.As(err, new(*probe.RefusedError)) && !errors.As(err, &status) {
			o, err = probe.Outcome{State: probe.Missing, Reason: err.Error()}, nil // no connection
		}
		if err != nil {
			return false, g.explain(ctx, err, g.some(n))
		}
		if o.State != probe.Proven {
			o.State, o.Reason = probe.Missing, fmt.Sprintf("%s in a row, then: %s", answers(n), o.Reason)
			_, err := g.tell(o)
			return false, err
		}
		if _, err := g.tell(o); err != nil {
			return false, err
		}
	}
	return true, nil
}

// some is the outcome of answers that are too few.
func (g *gate) some(n int) probe.Outcome {
	return probe.Outcome{State: probe.Proven, Reason: fmt.Sprintf("%s in a row, %d wanted", answers(n), g.spec.Stable)}
}

func answers(n int) string {
	if n == 1 {
		return "1 answer"
	}
	return fmt.Sprintf("%d answers", n)
}

// tell hands what an answer showed to the survey, for the ladder, and to the
// reporter. It returns how the webhook stands now.
func (g *gate) tell(o probe.Outcome) (survey.Status, error) {
	g.last = o
	switch {
	case o.State == probe.Proven:
		g.survey.RecordAnswer(g.entry)
	case g.entry.Matches(o.Fault):
		g.survey.RecordCall(o.Fault, false)
	}
	st, err := g.status()
	if err != nil {
		return st, err
	}
	w := diagnosis.Of(st)
	switch {
	case o.State == probe.Unproven:
		w.Rung, w.State, w.Cause = string(webhook.Admitting), string(webhook.Unknown), "unproven: "+clean.Line(o.Reason)
	case o.State == probe.Missing && st.Ladder.Callable():
		w.Rung, w.State, w.Cause = string(webhook.Admitting), string(webhook.Waiting), clean.Line(o.Reason)
	}
	g.report(w)
	return st, nil
}

func (g *gate) report(w *runner.Webhook) {
	w.Cause = clean.Line(w.Cause)
	g.reporter.Report(runner.Report{Type: runner.TypeWebhook, Webhook: w})
}

// explain says what an error of a dry run means; last is what was shown last.
func (g *gate) explain(ctx context.Context, err error, last probe.Outcome) error {
	refused, held := (*probe.RefusedError)(nil), (*hold.Error)(nil)
	switch {
	case errors.As(err, &held):
		return err // steps/internal/transport explains it
	case errors.As(err, &refused) && refused.Forbidden:
		return runner.WithHint(runner.Permanent(err), "a dry run needs the right to create the object: have it granted, or choose a canary that the user may create")
	case errors.As(err, &refused) && refused.Webhook != "":
		return runner.WithHint(runner.Permanent(err), "the webhook works and refuses this object: change the canary, or the policy")
	case errors.As(err, &refused):
		return runner.WithHint(runner.Permanent(err), "change the canary")
	case ctx.Err() == nil:
		return kubeerr.Explain(err, kubeerr.Op{Verb: "create"})
	}
	st, gone := g.status()
	if gone != nil {
		st.Entry = g.entry
	}
	return g.timedOut(context.Cause(ctx), st, admitting(last), g.hint(st, last))
}

// timedOut says of a webhook that did not come in time where it stands, whose it
// is, and what people can do.
func (g *gate) timedOut(err error, st survey.Status, last, hint string) error {
	if owner := g.owners.Of(st.Owner); owner != "" {
		last += "; it belongs to " + owner
	}
	what := g.entry.String()
	if service := g.entry.Service(); service != "" {
		what += " (Service " + service + ")"
	}
	return diagnosis.TimedOut(err, what+" to answer", last, hint)
}

// admitting says what was shown last of a webhook that does not admit yet.
func admitting(o probe.Outcome) string {
	return webhook.Reading{Rung: webhook.Admitting, State: webhook.Waiting, Reason: clean.Line(o.Reason)}.String()
}

// hint says what people can do after what was shown last.
func (g *gate) hint(st survey.Status, o probe.Outcome) string {
	switch {
	case o.State == probe.Proven && st.Ladder.Callable():
		return "it answers: give the step more time"
	case o.Canary == nil || !st.Ladder.Callable():
		return g.owners.Hint(st, o.Fault)
	}
	in, ns := "", o.Canary.Object.GetNamespace()
	switch {
	case ns != "" && strings.HasSuffix(o.Reason, fmt.Sprintf("namespaces %q not found", ns)):
		return fmt.Sprintf("a dry run needs the namespace of its object: write another one into %s, such as default, or let this step need the one that makes it", o.Canary.Source)
	case strings.Contains(o.Reason, `no matches for kind "`):
		return fmt.Sprintf("is the kind spelled so, in %s? kubectl api-resources shows the kinds that there are", o.Canary.Source)
	case ns != "":
		in = " -n " + ns
	}
	hint := fmt.Sprintf("see the answer with: kubectl create --dry-run=server%s -f %s; change the canary, or the policy that it is to show", in, o.Canary.Source)
	if g.entry.FailurePolicy == admissionv1.Ignore {
		hint += "; or mend the webhook, if it gives no answer: its failurePolicy is Ignore"
	}
	return hint
}

// either waits for a change or for a time, whichever comes first.
func either(ctx context.Context, changed func(context.Context) error, d time.Duration) error {
	bounded, cancel := context.WithTimeoutCause(ctx, d, errTime)
	defer cancel()
	if err := changed(bounded); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

var errTime = errors.New("no change within the time")
