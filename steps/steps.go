// Package steps knows how each kind of step is done: it makes the action of a
// step, with clients of its own whose requests are held for webhooks.
//
// It does not decide when a step runs, or how often: package runner does. The
// kinds are in its folders, one package each.
package steps

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/apply"
	"github.com/kplan-dev/kplan/steps/helm"
	"github.com/kplan-dev/kplan/steps/internal/kube"
	"github.com/kplan-dev/kplan/steps/internal/standing"
	"github.com/kplan-dev/kplan/steps/wait"
	"github.com/kplan-dev/kplan/steps/webhookgate"
	"github.com/kplan-dev/kplan/webhook/hold"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// Config says which plan is run and against which cluster.
type Config struct {
	Plan *plan.Plan
	// Flags are kubectl's own: kubeconfig, context, namespace, …
	Flags *genericclioptions.ConfigFlags
	// UserAgent names the program in the API server's audit log.
	UserAgent string
}

// Steps makes the actions of one plan's steps. Close it after the run.
type Steps struct {
	plan    *plan.Plan
	cluster *kube.Cluster
	client  dynamic.Interface
	survey  *survey.Survey
	gate    *hold.Gate
	// charts are those of the helm steps that were resolved, by the steps' names.
	charts map[string]*helm.Chart
}

// New connects to the cluster; it fails when that cannot be used.
func New(ctx context.Context, c Config) (*Steps, error) {
	cluster, err := kube.Connect(ctx, c.Flags, c.UserAgent)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	view := survey.New(client)
	return &Steps{
		plan: c.Plan, cluster: cluster, client: client, survey: view, gate: hold.NewGate(view), charts: map[string]*helm.Chart{},
	}, nil
}

// Cluster says for people which cluster the steps work on: its context in the
// kubeconfig, and its address without credentials.
func (s *Steps) Cluster() string { return s.cluster.About() }

// Close stops what the steps share. No action may run any more.
func (s *Steps) Close() { s.survey.Close() }

// Resolve makes the action of a step; it is a runner.Resolver.
func (s *Steps) Resolve(step plan.Step) (runner.Action, error) {
	l := &line{}
	if webhooks := s.plan.StepWebhooks(step); webhooks.Hold {
		l.gate = s.gate
		l.hold.Timeout, l.hold.Grace = webhooks.HoldTimeout, webhooks.MisconfiguredTimeout
	}
	session, err := s.cluster.Session(kube.Options{Wrap: l.wrap, Warn: l.warn})
	if err != nil {
		return nil, err
	}
	action, err := s.action(step, session)
	if err != nil {
		return nil, err
	}
	return &connected{action, l, &explainer{s.owners(), s.gate}}, nil
}

func (s *Steps) action(step plan.Step, session *kube.Session) (runner.Action, error) {
	switch step.Kind() {
	case plan.KindHelm:
		a, err := helm.New(s.plan, step, session)
		if err == nil {
			s.charts[step.Name] = a.Chart
		}
		return a, err
	case plan.KindApply:
		return apply.New(s.plan, *step.Apply, session)
	case plan.KindWait:
		return wait.New(*step.Wait, session)
	case plan.KindWebhook:
		return webhookgate.New(s.owners(), step, session, s.survey)
	}
	return nil, errors.New("the step has no kind")
}

func (s *Steps) owners() standing.Owners {
	return standing.Owners{Plan: s.plan, Namespace: s.cluster.Namespace()}
}

// connected is an action whose requests go over its line.
type connected struct {
	action    runner.Action
	line      *line
	explainer *explainer
}

// Run runs the action, and makes its error say more of webhooks.
func (c *connected) Run(ctx context.Context, r runner.Reporter) error {
	r = standing.Once(r) // both the line and the action may tell how webhooks stand
	attempt := c.line.open(ctx, r)
	defer c.line.close()
	return attempt.nameDenied(c.explainer.explain(c.action.Run(ctx, r)))
}
