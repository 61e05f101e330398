package steps

import (
	"context"
	"sync"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/kube"
	"github.com/kplan-dev/kplan/steps/internal/standing"
	"github.com/kplan-dev/kplan/steps/internal/tail"
	"github.com/kplan-dev/kplan/steps/output"
)

// action does a step on its cluster. What the step's kind does is made over the
// connection to the cluster, as soon as there is one, and anew when that is
// another one: a cluster may be made by the steps before.
type action struct {
	steps *Steps
	step  plan.Step
	link  *link
	// outputs are read once the step's kind is done.
	outputs *output.Outputs

	// What follows changes with the connection; attempts come one at a time.
	conn      *connection // nil before the first
	session   *kube.Session
	kind      runner.Action
	line      *line
	explainer *explainer
}

// resolve makes the step's kind over the connection that there is. Without one
// what can be checked is checked over none.
func (a *action) resolve() (err error) {
	if a.outputs, err = output.New(a.step.Outputs); err != nil {
		return err
	}
	if conn := a.link.now(); conn != nil {
		return a.over(conn)
	}
	session, err := kube.Unconnected(a.link.namespace()).Session(kube.Options{})
	if err != nil {
		return err
	}
	_, err = a.steps.kind(a.step, session, nil)
	return err
}

// over makes the step's kind over a connection.
func (a *action) over(conn *connection) error {
	l := &line{sends: sync.OnceFunc(func() { a.steps.sends(a.step.Name) })}
	if webhooks := a.steps.plan.StepWebhooks(a.step); webhooks.Hold {
		l.gate = conn.gate
		l.hold.Timeout, l.hold.Grace, l.hold.Kind = webhooks.HoldTimeout, webhooks.MisconfiguredTimeout, conn.cluster.KindOf
	}
	session, err := conn.cluster.Session(kube.Options{Wrap: l.wrap, Warn: l.warn, Expect: a.steps.expect(a.step)})
	if err != nil {
		return err
	}
	session.Webhooks = conn.webhooks
	kind, err := a.steps.kind(a.step, session, conn.survey)
	if err != nil {
		return err
	}
	a.conn, a.session, a.kind, a.line = conn, session, kind, l
	a.explainer = &explainer{a.steps.owners(a.step, conn.cluster.Namespace()), conn.gate}
	return nil
}

// Run connects to the cluster, or sees that it is there, runs the step's kind and
// reads the step's outputs. It makes an error say more of webhooks.
func (a *action) Run(ctx context.Context, r runner.Reporter) error {
	conn, err := a.link.connect(ctx)
	if err != nil {
		return classify(err)
	}
	if conn != a.conn {
		if err := a.over(conn); err != nil {
			return err
		}
	}
	pods := tail.New(ctx, conn.pods, r)
	defer func() { _ = pods.Close(ctx, nil) }() // should the kind panic
	r = standing.Once(pods)                     // both the line and the action may tell how webhooks stand
	attempt := a.line.open(ctx, r)
	defer a.line.close()
	err = a.kind.Run(ctx, r)
	if err == nil {
		err = a.report(ctx, r)
	}
	return classify(pods.Close(ctx, attempt.nameDenied(attempt.nameHeld(err, a.explainer))))
}

// report reads the outputs and hands them to the run.
func (a *action) report(ctx context.Context, r runner.Reporter) error {
	if a.outputs.Empty() {
		return nil
	}
	values, sensitive, err := a.outputs.Read(ctx, a.session)
	if err != nil {
		return err
	}
	for _, name := range sensitive {
		a.steps.hide(values[name])
	}
	r.Report(runner.Report{Type: runner.TypeOutputs, Outputs: values, Sensitive: sensitive})
	return nil
}
