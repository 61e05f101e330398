package steps

import (
	"context"
	"sync"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/diagnosis"
	"github.com/kplan-dev/kplan/steps/internal/output"
	"github.com/kplan-dev/kplan/steps/internal/podlog"
	"github.com/kplan-dev/kplan/steps/internal/transport"
)

// action does a step on its cluster. What the step's kind does is made over the
// connection to the cluster, as soon as there is one, and anew when that is
// another one: a cluster may be made by the steps before.
type action struct {
	steps *Steps
	step  plan.Step
	conn  *cluster.Conn
	// outputs are read once the step's kind is done.
	outputs *output.Outputs

	// What follows changes with the connection; attempts come one at a time.
	shared    *cluster.Shared // nil before the first
	session   *cluster.Session
	kind      runner.Action
	transport *transport.Step
	explainer *transport.Explainer
}

// resolve makes the step's kind over the connection that there is. Without one
// what can be checked is checked over none.
func (a *action) resolve() (err error) {
	if a.outputs, err = output.New(a.step.Outputs); err != nil {
		return err
	}
	if conn := a.conn.Now(); conn != nil {
		return a.over(conn)
	}
	session, err := cluster.Unconnected(a.conn.Namespace()).Session(cluster.Options{})
	if err != nil {
		return err
	}
	_, err = a.steps.kind(a.step, session, nil)
	return err
}

// over makes the step's kind over a connection.
func (a *action) over(conn *cluster.Shared) error {
	l := &transport.Step{Sends: sync.OnceFunc(func() { a.steps.sends(a.step.Name) })}
	if webhooks := a.steps.plan.StepWebhooks(a.step); webhooks.Hold {
		l.Gate = conn.Gate
		l.Hold.Timeout, l.Hold.Grace, l.Hold.Kind = webhooks.HoldTimeout, webhooks.MisconfiguredTimeout, conn.Cluster.KindOf
	}
	session, err := conn.Cluster.Session(cluster.Options{Wrap: l.Wrap, Warn: l.Warn, Expect: a.steps.expect(a.step)})
	if err != nil {
		return err
	}
	session.Webhooks = conn.Webhooks
	kind, err := a.steps.kind(a.step, session, conn.Survey)
	if err != nil {
		return err
	}
	a.shared, a.session, a.kind, a.transport = conn, session, kind, l
	a.explainer = &transport.Explainer{Owners: a.steps.owners(a.step, conn.Cluster.Namespace()), Gate: conn.Gate}
	return nil
}

// Run connects to the cluster, or sees that it is there, runs the step's kind and
// reads the step's outputs. It makes an error say more of webhooks.
func (a *action) Run(ctx context.Context, r runner.Reporter) error {
	conn, err := a.conn.Connect(ctx)
	if err != nil {
		return classify(err)
	}
	if conn != a.shared {
		if err := a.over(conn); err != nil {
			return err
		}
	}
	pods := podlog.New(ctx, conn.Pods, r)
	defer func() { _ = pods.Close(ctx, nil) }() // should the kind panic
	r = diagnosis.WithoutRepeats(pods)          // both the line and the action may tell how webhooks stand
	attempt := a.transport.Open(ctx, r)
	defer a.transport.Close()
	err = a.kind.Run(ctx, r)
	if err == nil {
		err = a.report(ctx, r)
	}
	return classify(pods.Close(ctx, attempt.NameDenied(attempt.NameHeld(err, a.explainer))))
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
