// Package webhookgate is the webhook step: it waits until admission webhooks,
// and conversion webhooks of custom resources, answer through the API server.
//
// It reads the ladder of each webhook first, and then asks it by dry runs
// (package webhook/probe), the first of which the session's transport holds:
// only that covers Service, endpoints, routing, certificate and handler at once.
// It does not create anything, and judges what a webhook answers by the step's
// canaries alone.
package webhookgate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kplan-dev/kplan/internal/clean"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/diagnosis"
	"github.com/kplan-dev/kplan/steps/internal/kubeerr"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// Action waits for the webhooks of one step.
type Action struct {
	spec    plan.Webhook
	owners  diagnosis.Owners
	target  target
	objects objects
}

// New makes the action of a webhook step of a plan, whose files a store reads. What is
// wrong in the step and in its files is told here; the cluster is asked in Run only.
func New(owners diagnosis.Owners, step plan.Step, from *source.Store) (*Action, error) {
	spec := *step.Webhook
	t, err := targetOf(owners, spec)
	if err != nil {
		return nil, runner.Permanent(err)
	}
	o, err := objectsOf(owners, step, from)
	if err != nil {
		return nil, runner.Permanent(err)
	}
	if len(spec.Files) > 0 {
		t.conversions = o.custom()
	}
	return &Action{spec: spec, owners: owners, target: t, objects: o}, nil
}

// Run waits until all of the webhooks answer, also those that are configured while
// it waits.
func (a *Action) Run(ctx context.Context, s *cluster.Session, r runner.Reporter) error {
	return (&run{a, s, s.Cluster.Survey, r}).do(ctx)
}

// run is one attempt.
type run struct {
	*Action
	session  *cluster.Session
	survey   *survey.Survey
	reporter runner.Reporter
}

func (a *run) do(ctx context.Context) error {
	known, err := newKnowledge(ctx, a.session)
	if err != nil {
		return kubeerr.Explain(err, kubeerr.Op{Verb: "list"})
	}
	fresh, err := a.session.Cluster.Session(cluster.Options{Fresh: true})
	if err != nil {
		return err
	}
	v := a.follow(a.matching(ctx, known))
	defer v.Close()
	entries, err := a.entries(ctx, v)
	if err != nil {
		return err
	}
	var gates []*gate
	for {
		var more []*gate
		for _, e := range entries {
			if !slices.ContainsFunc(gates, func(g *gate) bool { return g.entry.Is(e) }) {
				more = append(more, &gate{run: a, view: v, known: known, entry: e, fresh: fresh.Dynamic, began: time.Now()})
			}
		}
		if len(more) == 0 { // none came while the others were waited for
			break
		}
		if err := waitAll(ctx, more); err != nil {
			return err
		}
		gates = append(gates, more...)
		entries = configured(v)
	}
	if err := a.checkCanaries(gates); err != nil {
		return err
	}
	a.reporter.Report(runner.Report{
		Type: runner.TypeResult, Message: summary(gates, a.unread(definitions)),
		Unchanged: !slices.ContainsFunc(gates, func(g *gate) bool { return g.waited.Load() }),
	})
	return nil
}

// waitAll waits for all gates at the same time. The first that fails ends it.
func waitAll(ctx context.Context, gates []*gate) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, g := range gates {
		group.Go(func() error { return g.wait(ctx) })
	}
	return group.Wait()
}

// checkCanaries refuses a canary that no webhook was asked with: nothing was
// proven with it.
func (a *Action) checkCanaries(gates []*gate) error {
	for i, c := range a.objects.canaries {
		concerned := false
		for _, g := range gates {
			concerned = concerned || g.probe.Concerns(i)
		}
		if !concerned {
			return runner.WithHint(runner.Permanent(fmt.Errorf("the %s concerns none of the webhooks", c)),
				"their rules and selectors leave it out: choose an object that they are called for")
		}
	}
	return nil
}

// summary tells how many webhooks gave an answer, and why the others gave none;
// hidden is why CRDs cannot be read, if they are wanted.
func summary(gates []*gate, hidden string) string {
	var notes []string
	for _, g := range gates {
		if g.unproven != "" {
			notes = append(notes, fmt.Sprintf("%s %s unproven: %s", g.entry.Kind, g.entry.Name, clean.Line(g.unproven)))
		}
	}
	s := fmt.Sprintf("%d of %d webhooks admit", len(gates)-len(notes), len(gates))
	if hidden != "" {
		notes = append(notes, "conversion webhooks unproven: "+clean.Line(hidden))
	}
	if len(notes) > 0 {
		s += " (" + strings.Join(notes, "; ") + ")"
	}
	return s
}
