// Package webhookgate is the webhook step: it waits until admission webhooks
// answer through the API server.
//
// It reads the ladder of each webhook first, then creates an object by dry run,
// which the session's transport holds until the webhook answers: only that
// covers Service, endpoints, routing, certificate and handler at once. It does
// not create anything, and does not judge what a webhook answers.
package webhookgate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/kube"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/hold"
	"github.com/kplan-dev/kplan/webhook/survey"
)

const (
	// look is the distance of tries where requests are not held.
	look = 250 * time.Millisecond
	// steady is the distance of two admissions that prove stability.
	steady = 100 * time.Millisecond
)

// Action waits for the webhooks of one step.
type Action struct {
	spec    plan.Webhook
	release string // namespace/name
	session *kube.Session
	survey  *survey.Survey
}

var _ runner.Action = (*Action)(nil)

// New makes the action of a webhook step of p.
func New(p *plan.Plan, spec plan.Webhook, session *kube.Session, view *survey.Survey) (*Action, error) {
	a := &Action{spec: spec, session: session, survey: view}
	if spec.Release != "" {
		ns := spec.Namespace
		if ns == "" {
			ns = namespaceOf(p, spec.Release)
		}
		if ns == "" {
			ns = session.Cluster.Namespace()
		}
		a.release = ns + "/" + spec.Release
	}
	return a, nil
}

// namespaceOf finds the namespace of a release of the plan.
func namespaceOf(p *plan.Plan, release string) string {
	for _, s := range p.Steps {
		if s.Helm != nil && s.ReleaseName() == release {
			return s.Helm.Namespace
		}
	}
	return ""
}

// Run waits until all of the webhooks answer.
func (a *Action) Run(ctx context.Context, r runner.Reporter) error {
	v := a.follow()
	defer v.Close()
	entries, err := a.entries(ctx, v, r)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	results := make([]string, len(entries))
	for i, e := range entries {
		group.Go(func() error {
			g := &gate{Action: a, view: v, entry: e, reporter: r}
			unproven, err := g.wait(ctx)
			results[i] = unproven
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	r.Report(runner.Report{Type: runner.TypeResult, Message: summary(entries, results)})
	return nil
}

// summary tells how many webhooks gave an answer, and why the others gave none.
func summary(entries []webhook.Entry, unproven []string) string {
	var notes []string
	for i, e := range entries {
		if unproven[i] != "" {
			notes = append(notes, fmt.Sprintf("%s unproven: %s", e.Name, unproven[i]))
		}
	}
	s := fmt.Sprintf("%d of %d webhooks admit", len(entries)-len(notes), len(entries))
	if len(notes) > 0 {
		s += " (" + strings.Join(notes, "; ") + ")"
	}
	return s
}

// wants tells whether an entry is one of the step's.
func (a *Action) wants(e webhook.Entry) bool {
	return (a.release != "" && e.Owner.Release == a.release) || (a.spec.Configuration != "" && e.Configuration == a.spec.Configuration)
}

// entries waits until the webhooks that are meant exist.
func (a *Action) entries(ctx context.Context, v *view, r runner.Reporter) ([]webhook.Entry, error) {
	what := "the webhooks of release " + a.release
	if a.release == "" {
		what = "webhook configuration " + a.spec.Configuration
	}
	told := false
	for {
		changed := v.next()
		var mine []webhook.Entry
		for _, st := range v.Standings() {
			mine = append(mine, st.Entry)
		}
		if len(mine) > 0 && v.Synced() {
			return mine, nil
		}
		last := "not there"
		if unread := a.survey.Unread(); len(unread) > 0 {
			last = strings.Join(unread, ", ")
		}
		if !told {
			told = true
			r.Report(runner.Report{Type: runner.TypeProgress, Message: what + ": not there yet"})
		}
		if err := changed(ctx); err != nil {
			return nil, runner.WithHint(timedOut(err, what+" to be configured", last), "list what there is with: kplan webhooks")
		}
	}
}

// gate waits for one webhook.
type gate struct {
	*Action
	view     *view
	entry    webhook.Entry
	reporter runner.Reporter
	told     string
}

// wait returns when the webhook answers; the text says why that could not be
// proven though everything that can be read is in order.
func (g *gate) wait(ctx context.Context) (unproven string, err error) {
	if err := g.climb(ctx); err != nil {
		return "", err
	}
	p, err := newProbe(ctx, g.session, g.entry)
	if reason := (*unprovable)(nil); errors.As(err, &reason) {
		g.tell(webhook.Admitting, "unproven: "+reason.Error())
		return reason.Error(), nil
	}
	if err != nil {
		return "", err
	}
	unproven, err = g.admitted(ctx, p)
	if err != nil {
		return "", err
	}
	if unproven != "" {
		g.tell(webhook.Admitting, "unproven: "+unproven)
		return unproven, nil
	}
	g.tell(webhook.Admitting, "answers")
	return "", nil
}

// climb waits for the rungs that can be read.
func (g *gate) climb(ctx context.Context) error {
	for {
		changed := g.view.next()
		st, ok := g.standing()
		if !ok {
			return fmt.Errorf("%s is gone: its configuration was changed or deleted meanwhile", g.entry)
		}
		g.entry = st.Entry
		if st.Ladder.Callable() {
			return nil
		}
		r, _ := st.Ladder.Missing()
		g.tell(r.Rung, r.Reason)
		if err := changed(ctx); err != nil {
			return runner.WithHint(timedOut(err, g.entry.String(), r.String()), climbHint(r.Rung, g.entry))
		}
	}
}

// standing is how the webhook stands now; false when it is gone.
func (g *gate) standing() (survey.Standing, bool) {
	for _, st := range g.view.Standings() {
		if st.Is(g.entry) {
			return st, true
		}
	}
	return survey.Standing{}, false
}

// climbHint says where to look for a rung that is not reached.
func climbHint(rung webhook.Rung, e webhook.Entry) string {
	if rung == webhook.Trusted {
		return "the operator, or cert-manager's cainjector, fills the CA bundle in: look at its log"
	}
	ns := e.Client.Service.Namespace
	return fmt.Sprintf("look at the Service and its pods: kubectl get services,endpointslices,pods -n %s", ns)
}

// admitted waits for as many answers in a row as the step wants. The first is
// held for; the others go past the hold, so that a missing one is seen.
func (g *gate) admitted(ctx context.Context, p *probe) (unproven string, err error) {
	plainSession, err := g.session.Cluster.Session(kube.Options{})
	if err != nil {
		return "", err
	}
	for {
		if unproven, err = g.first(ctx, p); err != nil || unproven != "" {
			return unproven, err
		}
		n := 1
		for ; n < g.spec.Stable; n++ {
			if err := pause(ctx, steady); err != nil {
				return "", timedOut(err, g.entry.String(), fmt.Sprintf("%d answers in a row, %d wanted", n, g.spec.Stable))
			}
			if _, err := p.send(ctx, plainSession); err != nil {
				if ctx.Err() != nil || !isFault(err) {
					return "", err
				}
				g.tell(webhook.Admitting, fmt.Sprintf("answered %d times, then: %s", n, kube.Plain(err.Error())))
				break
			}
		}
		if n >= g.spec.Stable {
			return "", nil
		}
	}
}

// first waits for one answer. With the hold that is one request, which comes
// back as an error only when it was given up; without, the step asks again itself.
func (g *gate) first(ctx context.Context, p *probe) (unproven string, err error) {
	for {
		unproven, err = p.send(ctx, g.session)
		held := (*hold.Error)(nil)
		if err == nil || ctx.Err() != nil || !isFault(err) || errors.As(err, &held) {
			return unproven, err
		}
		cause := faultOf(err).Cause
		g.tell(webhook.Admitting, cause)
		if err := pause(ctx, look); err != nil {
			return "", timedOut(err, g.entry.String()+" to admit", cause)
		}
	}
}

// tell reports where the webhook stands, when that is news.
func (g *gate) tell(rung webhook.Rung, text string) {
	message := kube.Plain(fmt.Sprintf("webhook %s: %s: %s", g.entry.Name, rung, text))
	if message == g.told {
		return
	}
	g.told = message
	g.reporter.Report(runner.Report{Type: runner.TypeProgress, Object: g.entry.Configuration, Message: message})
}

// pause waits, or tells why the context ended.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// ended prefers the reason for which the context ended to what a client made of it.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// timedOut says what a timeout was waiting for.
func timedOut(err error, what, last string) error {
	var t *runner.TimeoutError
	if !errors.As(err, &t) {
		return err
	}
	return &stepTimeout{&runner.TimeoutError{After: t.After, For: what, Last: last}, err}
}

// stepTimeout is a timeout that still has its cause.
type stepTimeout struct {
	*runner.TimeoutError
	cause error
}

func (e *stepTimeout) Unwrap() []error { return []error{e.TimeoutError, e.cause} }
