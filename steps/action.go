package steps

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/diagnosis"
	"github.com/kplan-dev/kplan/steps/internal/output"
	"github.com/kplan-dev/kplan/steps/internal/podlog"
	"github.com/kplan-dev/kplan/steps/internal/readiness"
	"github.com/kplan-dev/kplan/steps/internal/stall"
	"github.com/kplan-dev/kplan/steps/internal/transport"
	"github.com/kplan-dev/kplan/steps/internal/watch"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/hold"
)

// action makes what a step does: what its kind does, in what every step needs. What
// is around what reads from the outside in.
func (s *Steps) action(step plan.Step, conn *cluster.Conn) (runner.Action, error) {
	outputs, err := output.New(step.Outputs, step.Namespace())
	if err != nil {
		return nil, err
	}
	rules, err := readiness.New(step.Ready)
	if err != nil {
		return nil, runner.Permanent(err)
	}
	over := func(c *cluster.Cluster) (runner.Action, error) {
		kind, err := s.kind(step, c)
		if err != nil {
			return nil, err
		}
		return withPods(c.Pods,
			withoutRepeats(
				s.overSession(step, rules, c,
					withOutputs(outputs, s.hide,
						s.remembered(step, c,
							kind))),
			)), nil
	}
	connected, err := connect(conn, over)
	if err == nil && writes(step) {
		connected.locks, connected.name = s.locks, s.plan.StepCluster(step)
	}
	return classified(connected), err
}

// sessionAction is an action whose requests go through the clients of one attempt.
type sessionAction interface {
	Run(context.Context, *cluster.Session, runner.Reporter) error
}

// do is an action that is one function.
type do func(context.Context, runner.Reporter) error

// Run implements runner.Action.
func (f do) Run(ctx context.Context, r runner.Reporter) error { return f(ctx, r) }

// classified makes the action's error say of which kinds the failure is.
func classified(inner runner.Action) runner.Action {
	return do(func(ctx context.Context, r runner.Reporter) error { return classify(inner.Run(ctx, r)) })
}

// connected is an action over a cluster that may be made by the steps before it. It
// is made as soon as the cluster is there, and anew when that is another one.
type connected struct {
	conn *cluster.Conn
	over func(*cluster.Cluster) (runner.Action, error)
	// locks are taken before the action; nil for one that writes nothing. name is the
	// cluster's in the plan.
	locks *locks
	name  string

	// What follows changes with the connection; attempts come one at a time.
	cluster *cluster.Cluster // nil before the first
	action  runner.Action
}

// connect makes an action over the connection that there is. Without one what can be
// checked is checked over none.
func connect(conn *cluster.Conn, over func(*cluster.Cluster) (runner.Action, error)) (*connected, error) {
	a := &connected{conn: conn, over: over}
	if c := conn.Now(); c != nil {
		return a, a.use(c)
	}
	_, err := over(cluster.Unconnected(conn.Namespace()))
	return a, err
}

func (a *connected) use(c *cluster.Cluster) error {
	action, err := a.over(c)
	if err == nil {
		a.cluster, a.action = c, action
	}
	return err
}

// Run connects to the cluster, or sees that it is there, and does the action.
func (a *connected) Run(ctx context.Context, r runner.Reporter) error {
	c, err := a.reach(ctx, r)
	if err != nil {
		return err
	}
	if c != a.cluster {
		if err := a.use(c); err != nil {
			return err
		}
	}
	return a.locks.while(ctx, a.name, c, r, func(ctx context.Context) error { return a.action.Run(ctx, r) })
}

// reach connects to the cluster. It waits for one that does not answer at all but
// did earlier in the run.
func (a *connected) reach(ctx context.Context, r runner.Reporter) (*cluster.Cluster, error) {
	for began := time.Now(); ; {
		c, err := a.conn.Connect(ctx)
		away := (*cluster.UnreachableError)(nil)
		if a.conn.Now() == nil || !errors.As(err, &away) || time.Since(began) > cluster.Outage {
			return c, err
		}
		r.Report(runner.Report{Type: runner.TypeProgress, Message: "waiting for the cluster: " + away.Error()})
		if err := watch.Pause(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// overSession makes the clients of each attempt, whose requests are held and end with
// it, and makes the action's error say what was held or denied.
func (s *Steps) overSession(step plan.Step, rules *readiness.Rules, c *cluster.Cluster, inner sessionAction) runner.Action {
	sends := sync.OnceFunc(func() { s.sends(step.Name) })
	explainer := &transport.Explainer{Owners: s.owners(step, c.Namespace()), Gate: c.Gate}
	return do(func(ctx context.Context, r runner.Reporter) error {
		attempt := transport.Begin(ctx, r)
		attempt.Sends = sends
		if webhooks := s.plan.StepWebhooks(step); webhooks.Hold {
			attempt.Hold = hold.Transport{
				Gate: c.Gate, Kind: c.KindOf, Timeout: webhooks.HoldTimeout, Grace: webhooks.MisconfiguredTimeout,
				Outage: cluster.Outage,
			}
			if s.plan.StepFailFast(step) {
				attempt.Hold.Images = map[webhook.ImageFault]time.Duration{
					webhook.ImageUnusable: hold.DefaultGrace, // the step may be about to send what mends it
					webhook.ImageAbsent:   stall.Default.Grace[stall.Image], webhook.ImageRefused: stall.Default.Grace[stall.Pull],
				}
			}
		}
		session, err := c.Session(cluster.Options{
			Wrap: attempt.Wrap, Expect: s.expect(step), FailFast: s.plan.StepFailFast(step), Ready: rules,
			Warn: func(message string) { attempt.Log("warning: " + message) },
		})
		if err != nil {
			return err
		}
		return attempt.Explain(inner.Run(ctx, session, r), explainer)
	})
}

// doOver is a sessionAction that is one function.
type doOver func(context.Context, *cluster.Session, runner.Reporter) error

// Run implements sessionAction.
func (f doOver) Run(ctx context.Context, s *cluster.Session, r runner.Reporter) error {
	return f(ctx, s, r)
}

// withOutputs reads the step's outputs after the action, and hands them to the run;
// hide is called with those that must not be shown, before anybody has them.
func withOutputs(outputs *output.Outputs, hide func(any), inner sessionAction) sessionAction {
	if outputs.Empty() {
		return inner
	}
	return doOver(func(ctx context.Context, session *cluster.Session, r runner.Reporter) error {
		if err := inner.Run(ctx, session, r); err != nil {
			return err
		}
		values, sensitive, err := outputs.Read(ctx, session)
		if err != nil {
			return err
		}
		for _, name := range sensitive {
			hide(values[name])
		}
		r.Report(runner.Report{Type: runner.TypeOutputs, Outputs: values, Sensitive: sensitive})
		return nil
	})
}

// withPods adds to the action's reports what the pods say that it waits for, and to
// its error what is wrong with them.
func withPods(source *podlog.Source, inner runner.Action) runner.Action {
	return do(func(ctx context.Context, r runner.Reporter) error {
		pods := podlog.New(ctx, source, r)
		defer func() { _ = pods.Close(ctx, nil) }() // should the action panic
		return pods.Close(ctx, inner.Run(ctx, pods))
	})
}

// withoutRepeats leaves out reports on a webhook that stands as the one before said:
// both the action and its transport may tell how webhooks stand.
func withoutRepeats(inner runner.Action) runner.Action {
	return do(func(ctx context.Context, r runner.Reporter) error { return inner.Run(ctx, diagnosis.WithoutRepeats(r)) })
}
