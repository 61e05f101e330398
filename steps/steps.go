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
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/kplan-dev/kplan/internal/flight"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/apply"
	"github.com/kplan-dev/kplan/steps/deletion"
	"github.com/kplan-dev/kplan/steps/helm"
	"github.com/kplan-dev/kplan/steps/internal/charts"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/diagnosis"
	"github.com/kplan-dev/kplan/steps/internal/kinds"
	"github.com/kplan-dev/kplan/steps/internal/manifest"
	"github.com/kplan-dev/kplan/steps/wait"
	"github.com/kplan-dev/kplan/steps/webhookgate"
)

// Config says which plan is run, and how its clusters are reached.
type Config struct {
	Plan *plan.Plan
	// Run is the run's ID.
	Run string
	// Flags are kubectl's own: kubeconfig, context, namespace, … They are for the
	// cluster of steps that name none. Other clusters of the plan that have a
	// context share the kubeconfig and whom to impersonate, and nothing else.
	Flags *genericclioptions.ConfigFlags
	// Kubeconfigs take the place of what the plan says of clusters, by the plan's names;
	// "" is the cluster of steps that name none.
	Kubeconfigs map[string]Kubeconfig
	// ForceUpgrade has the names of helm steps that are upgraded also when nothing
	// changed.
	ForceUpgrade map[string]bool
	// Deletion says how delete steps deal with what does not go by itself.
	Deletion deletion.Options
	// TakeOver has the names of helm steps that go on with a release which somebody
	// without a lock left unfinished.
	TakeOver map[string]bool
	// Lock, when set, keeps other runs of the plan from the clusters that it writes to.
	Lock *Lock
	// Sources gets charts and manifests from afar. It is the caller's, who closes it after
	// the steps; without one they make their own.
	Sources *source.Store
	// UserAgent names the program in the API server's audit log.
	UserAgent string
}

// Steps makes the actions of one plan's steps. Close it after the run.
type Steps struct {
	plan  *plan.Plan
	conns map[string]*cluster.Conn
	run   string
	// sources gets charts; own is it when nobody gave one.
	sources, own *source.Store
	force        map[string]bool
	// deletion is the configuration's.
	deletion deletion.Options
	// takeOver has the helm steps that go on with what others left unfinished.
	takeOver map[string]bool
	locks    *locks

	// inputs are the texts of Secrets and ConfigMaps that were read, by inputKey.
	inputs  sync.Map
	reading flight.Group[string]

	memory memory

	// readings are of what steps name, and looking has what was read while a look before the
	// run lasts; nil else.
	readings flight.Group[[]manifest.Object]
	looking  atomic.Pointer[sync.Map]

	mu sync.Mutex
	// resolved are the steps that were, by name.
	resolved map[string]*resolved
	// sent are the names of the steps that have begun to send something.
	sent map[string]bool
}

// resolved is a step as it was bound last. Steps.mu guards what follows the step.
type resolved struct {
	plan.Step
	chart  *charts.Chart // that of a helm step, so that it is fetched once
	origin *kinds.Step   // what its objects mean for kinds; nil before somebody asks
}

// New reads the kubeconfigs of the plan's clusters that are on this machine, and
// connects to the cluster of the command line and to those of Config.Kubeconfigs if a
// step works on them; it fails when one cannot be used. Other clusters are connected to when a step first
// needs them: steps before may make them. It fails with a *ledger.HeldError when
// another run has the plan's lock; that of a cluster which is connected to later is
// taken by the first step that writes to it. Nothing is written with Lock.Later.
func New(ctx context.Context, c Config) (*Steps, error) {
	all, err := cluster.OpenGiven(c.Plan, c.Flags, c.UserAgent, given(c.Kubeconfigs))
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if conn := all[name]; name == "" || conn.Given() {
			if _, err := conn.Connect(ctx); err != nil {
				return nil, err
			}
		}
	}
	s := &Steps{
		plan: c.Plan, conns: all, run: c.Run, force: c.ForceUpgrade, deletion: c.Deletion, takeOver: c.TakeOver, locks: newLocks(c),
		resolved: map[string]*resolved{}, sent: map[string]bool{},
	}
	if s.sources = c.Sources; s.sources == nil {
		s.own = source.New(source.Options{Repositories: c.Plan.Repositories, Dir: c.Plan.Dir, UserAgent: c.UserAgent})
		s.sources = s.own
	}
	if c.Lock == nil || !c.Lock.Later {
		if err := s.TakeLocks(ctx); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// Cluster says for people which clusters the steps work on: for each its name in
// the plan, its context in the kubeconfig and its address without credentials.
func (s *Steps) Cluster() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.conns)) {
		about := s.conns[name].About()
		if name != "" {
			about = name + ": " + about
		}
		all = append(all, about)
	}
	return strings.Join(all, "; ")
}

// Close gives the plan's locks back, and stops what the steps share. No action may
// run any more.
func (s *Steps) Close() {
	s.locks.close()
	for _, conn := range s.conns {
		conn.Close()
	}
	if s.own != nil {
		s.own.Close()
	}
}

// Resolve makes the action of a step; it is a runner.Resolver.
func (s *Steps) Resolve(step plan.Step) (runner.Action, error) {
	conn, err := s.bound(step)
	if err != nil {
		return nil, err
	}
	return s.action(step, conn)
}

// bound keeps a step as it is now for those who ask what it has, and returns the way to
// its cluster.
func (s *Steps) bound(step plan.Step) (*cluster.Conn, error) {
	name := s.plan.StepCluster(step)
	conn := s.conns[name]
	if conn == nil {
		return nil, fmt.Errorf("the plan has no cluster %q", name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resolved[step.Name] = &resolved{Step: step}
	return conn, nil
}

// hide keeps a value from being shown; it does so before anybody else has it.
func (s *Steps) hide(value any) {
	if set := s.plan.Sensitive; set != nil {
		set.Add(value)
	}
}

// sends notes that a step has begun to send something.
func (s *Steps) sends(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent[step] = true
}

// kind makes what a step's kind does on a cluster.
func (s *Steps) kind(step plan.Step, c *cluster.Cluster) (sessionAction, error) {
	switch step.Kind() {
	case plan.KindHelm:
		chart, err := s.chart(step, c.Namespace())
		if err != nil {
			return nil, err
		}
		name := s.plan.StepCluster(step)
		return helm.New(chart, c.Namespace(), helm.Options{
			ForceUpgrade: s.force[step.Name], TakeOver: s.takeOver[step.Name],
			Plan: s.plan.Metadata.Name, Run: s.run, Locked: func() bool { return s.locks.holds(name) },
			Hide: s.plan.Sensitive.Text,
		}), nil
	case plan.KindApply:
		return apply.New(step, c.Namespace(), s.neighbours(step, c), s.sources)
	case plan.KindWait:
		return wait.New(*step.Wait, c.Namespace())
	case plan.KindWebhook:
		return webhookgate.New(s.owners(step, c.Namespace()), step, s.sources)
	case plan.KindDelete:
		return deletion.New(step, c.Namespace(), s.deletion, s.sources)
	case plan.KindInclude:
	}
	return nil, errors.New("the step has no kind")
}

// chart returns the chart of a helm step, the same one each time.
func (s *Steps) chart(step plan.Step, namespace string) (_ *charts.Chart, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.resolved[step.Name]
	if r.chart == nil {
		r.chart, err = charts.New(step, namespace, s.sources)
	}
	return r.chart, err
}

// owners knows the plan for a step on a cluster with a default namespace.
func (s *Steps) owners(step plan.Step, namespace string) diagnosis.Owners {
	return diagnosis.Owners{Plan: s.plan, Cluster: s.plan.StepCluster(step), Namespace: namespace}
}
