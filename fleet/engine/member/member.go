// Package member runs a fleet's plan on one of its clusters, and tells what became of it.
//
// It does not decide when a cluster's turn is, or what happens to the others: the engines do.
package member

import (
	"context"
	"errors"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/plan/redact"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps"
)

// Config is what all clusters of a run have in common. It is safe for concurrent use.
type Config struct {
	// File is the path of the plan, and Inputs are what else than the fleet gives its
	// variables values.
	File   string
	Inputs load.Options
	// Target is the plan's cluster that the fleet's take the place of; "" is that of steps
	// which name none.
	Target string
	// Kubeconfig reads the kubeconfig of a cluster that has it in a Secret. It is called again
	// when the cluster does not accept the credentials.
	Kubeconfig func(context.Context, fleet.Cluster) ([]byte, error)
	// Flags are kubectl's own, for contexts of the user's kubeconfig and for the plan's other
	// clusters (default: none).
	Flags *genericclioptions.ConfigFlags
	// Sources gets charts and manifests from afar for a plan as it is with the values for a
	// cluster (default: each cluster's own). It is the caller's.
	Sources func(*plan.Plan) (*source.Store, error)
	// Secrets are what must not be shown beside the plan's own; nil for none.
	Secrets *redact.Set
	// UserAgent names the program in the API server's audit log.
	UserAgent string
	// By is who runs it, as USER@HOST, and Program with which kplan.
	By, Program string
	// Parallel is how many steps run at once on one cluster (default runner.DefaultParallel).
	Parallel int
	// LockWait is how long to wait for another run of the plan on a cluster to end.
	LockWait time.Duration
	// Unrecorded leaves out the record of the run in the cluster.
	Unrecorded bool
	// Guards finds which webhooks of the plan judge objects of which steps.
	Guards bool
}

// Run is one run of the plan on one cluster.
type Run struct {
	Cluster fleet.Cluster
	// Own are names that the cluster alone has, which are left out of causes; see
	// fleet.Rollout.Own.
	Own []string
	// ID is the run's in the records (default: a new one).
	ID string
	// Again says that an earlier run of the rollout was here: what it did is skipped if it is
	// still there.
	Again bool
	// Seat is a place that at most one process has at a time; see ledger.Holder.
	Seat string
	// Observers see the run's events, from the goroutine of Do.
	Observers []runner.Observer
	// Tell hears what people should know and no event says; nil for nobody.
	Tell func(string)
	// Orders and Abort are as package runner has them.
	Orders <-chan runner.Order
	Abort  <-chan struct{}
}

// Do runs the plan on a cluster. When ctx ends nothing new starts there, and what is at work
// is asked to end, as runner.Runner.Run does.
func (c *Config) Do(ctx context.Context, r Run) *fleet.Result {
	if r.ID == "" {
		r.ID = ledger.NewRunID()
	}
	if r.Tell == nil {
		r.Tell = func(string) {}
	}
	m := &member{Config: c, Run: r, result: &fleet.Result{Run: r.ID, Started: time.Now().UTC()}, hide: func(text string) string { return text }}
	x, err := m.run(ctx)
	m.conclude(ctx, x, err)
	return m.result
}

// member is a Run at work.
type member struct {
	*Config
	Run

	result *fleet.Result
	fold   fold
	hide   func(string) string
}

// run loads the plan and runs it. The Execution is nil when no step could begin.
func (m *member) run(ctx context.Context) (*runner.Execution, error) {
	p, err := m.load()
	if err != nil {
		return nil, err
	}
	var from *source.Store
	if m.Sources != nil {
		if from, err = m.Sources(p); err != nil {
			return nil, err
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	kinds, err := steps.New(ctx, steps.Config{
		Plan: p, Run: m.ID, Flags: m.flags(), Kubeconfigs: map[string]steps.Kubeconfig{m.Target: m.kubeconfig()},
		Sources: from, UserAgent: m.UserAgent,
		Lock: &steps.Lock{Wait: m.LockWait, Seat: m.Seat, Waiting: m.Tell, Lost: stop},
	})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, errors.Join(cause, err)
		}
		return nil, err
	}
	recording := m.begin(ctx, p, kinds)
	run := runner.Runner{
		ID: m.ID, By: m.By, Program: m.Program, About: kinds.Cluster(), Resolve: kinds.Resolve, ReadInputs: kinds.ReadInputs, Prepare: kinds.Prepare,
		Parallel: m.Parallel, Abort: m.Abort, Orders: m.Orders, Redact: m.hide,
		Observers: append(recording.Observers, &m.fold),
	}
	run.Observers = append(run.Observers, m.Observers...)
	if m.Guards {
		run.Guards = kinds.Guards
	}
	x, err := run.Run(ctx, p)
	if e := recording.Close(); e != nil {
		m.Tell("the run is not recorded " + e.Error())
	}
	if !errors.Is(err, runner.ErrAborted) { // an action still uses what Close takes away
		kinds.Close()
	}
	return x, err
}

// load reads the plan with the values for the cluster.
func (m *member) load() (*plan.Plan, error) {
	in := m.Inputs
	in.Fleet = m.Cluster.Vars
	p, err := load.File(m.File, in)
	if err != nil {
		return nil, err
	}
	m.hide = func(text string) string {
		if m.Secrets != nil {
			text = m.Secrets.Text(text)
		}
		return p.Sensitive.Text(text)
	}
	return p, nil
}

func (m *member) flags() *genericclioptions.ConfigFlags {
	if m.Flags == nil {
		return genericclioptions.NewConfigFlags(false)
	}
	return m.Flags
}

// begin reads what earlier runs did, and begins to record this one. What cannot be read or
// recorded is told, and stops nothing.
func (m *member) begin(ctx context.Context, p *plan.Plan, kinds *steps.Steps) *ledger.Recording {
	var store ledger.Store
	unrecorded := func(err error) {
		if err != nil {
			m.Tell("the run is not recorded: " + err.Error())
		}
	}
	if !m.Unrecorded {
		place, err := kinds.Home(ctx)
		if err == nil {
			store.Place = &place
		}
		unrecorded(err)
	}
	past, err := store.Past(ctx, p.Metadata.Name, kinds.Cluster())
	unrecorded(err)
	kinds.Remember(past, m.Again)
	recording, err := store.Begin(ctx, m.ID, past)
	unrecorded(err)
	return recording
}
