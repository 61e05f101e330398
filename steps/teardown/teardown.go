// Package teardown finds out what kplan down takes away of a plan, and makes a plan
// of deletions of it: its steps in reverse, those that wrote nothing left out.
//
// It changes nothing in a cluster: what it plans is run by package runner, as any
// other plan.
package teardown

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/source"
	"github.com/kplan-dev/kplan/steps/internal/cluster"
	"github.com/kplan-dev/kplan/steps/internal/removal"
)

// Config says what is to be taken away.
type Config struct {
	// Plan has Skip set for steps that are not picked, and that stay.
	Plan *plan.Plan
	// Flags are kubectl's own, as in steps.Config.
	Flags     *genericclioptions.ConfigFlags
	UserAgent string
	// Sources reads the steps' manifests; without one files only, as they are.
	Sources *source.Store
	// DeleteCRDs lets CustomResourceDefinitions go too, and with them every custom
	// resource of their kinds.
	DeleteCRDs bool
	// All says that all steps were picked: then those go too that earlier runs did
	// and the plan does not have any more.
	All bool
	// Past is the record of the plan's last run; nil without one.
	Past *ledger.Record
}

// Kept is an object that stays, and why.
type Kept = removal.Kept

// Step is what of a step goes, and what stays.
type Step struct {
	// Name is the step's in the plan, or that of one which kplan down adds.
	Name string `json:"step"`
	// Cluster is the plan's name of the cluster; "" for that of the command line.
	Cluster string `json:"cluster,omitempty"`
	// Release is namespace/name of a release that is uninstalled, Chart its chart.
	Release string `json:"release,omitempty"`
	Chart   string `json:"chart,omitempty"`
	// Goes are the objects that go, in no certain order.
	Goes []Going `json:"goes,omitempty"`
	Kept []Kept  `json:"kept,omitempty"`
	// Note says why nobody knows what the step made.
	Note string `json:"note,omitempty"`
}

// Going is an object that goes.
type Going struct {
	Object string `json:"object"`
	// Why it does, where no step names it.
	Why string `json:"why,omitempty"`
}

// Teardown is what goes of a plan.
type Teardown struct {
	// Plan deletes it. It has no steps when there is nothing to delete.
	Plan *plan.Plan `json:"-"`
	// Steps are in the order in which they go, as far as there is one; those of which
	// nothing is there are left out.
	Steps []Step `json:"steps"`
}

// Look asks the clusters of a plan what there is of it.
func Look(ctx context.Context, c Config) (*Teardown, error) {
	all, err := cluster.Open(c.Plan, c.Flags, c.UserAgent)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, conn := range all {
			conn.Close()
		}
	}()
	l := &look{Config: c, graph: c.Plan.Graph(), conns: all}
	if err := l.connect(ctx); err != nil {
		return nil, err
	}
	if err := l.steps(ctx); err != nil {
		return nil, err
	}
	l.share()
	l.spaces()
	if err := l.leftovers(ctx); err != nil {
		return nil, err
	}
	return l.result(), nil
}

// look is one look at a plan's clusters.
type look struct {
	Config
	graph *plan.Graph
	conns map[string]*cluster.Conn
	// sessions are those of clusters that are there, by their names in the plan, and
	// absent says why others are not.
	sessions map[string]*cluster.Session
	absent   map[string]error
	// found is what there is of each step, in plan order.
	found []*found
	// places are the namespaces that the plan made, by cluster and name.
	places []place
}

// connect opens the clusters. One whose kubeconfig is gone has nothing that could be
// taken away.
func (l *look) connect(ctx context.Context) error {
	l.sessions, l.absent = map[string]*cluster.Session{}, map[string]error{}
	for _, name := range slices.Sorted(maps.Keys(l.conns)) {
		c, err := l.conns[name].Connect(ctx)
		if absent := (*cluster.AbsentError)(nil); errors.As(err, &absent) {
			l.absent[name] = absent
			continue
		}
		if err != nil {
			return err
		}
		if l.sessions[name], err = c.Session(cluster.Options{}); err != nil {
			return err
		}
	}
	return nil
}

// steps looks what there is of each step.
func (l *look) steps(ctx context.Context) error {
	for _, s := range l.Plan.Steps {
		l.found = append(l.found, &found{step: s, cluster: l.Plan.StepCluster(s), past: l.Past.Known(s.Name)})
	}
	if l.Past != nil {
		for _, s := range l.Past.Former {
			if i := slices.IndexFunc(l.found, func(f *found) bool { return f.step.Name == s.Name }); i < 0 && l.All {
				l.found = append(l.found, &found{step: plan.Step{Name: s.Name, Cluster: s.Cluster}, cluster: s.Cluster, past: &s, former: true})
			}
		}
	}
	for _, f := range l.found {
		l.plans(f)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, f := range l.found {
		group.Go(func() error {
			if err := l.step(ctx, f); err != nil {
				return fmt.Errorf("step %q: %w", f.step.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// result puts together what goes, and the plan that deletes it.
func (l *look) result() *Teardown {
	t := &Teardown{Plan: l.deletions()}
	byName := map[string]*found{}
	for _, f := range l.found {
		byName[f.step.Name] = f
	}
	var order []string
	for _, f := range l.found {
		if f.former {
			order = append(order, f.step.Name)
		}
	}
	for _, name := range slices.Backward(l.graph.Order()) {
		order = append(order, name)
	}
	if crs := l.orphans(); len(crs) > 0 {
		for _, name := range slices.Sorted(maps.Keys(crs)) {
			t.Steps = append(t.Steps, Step{Name: customResources, Cluster: name, Goes: going(crs[name])})
		}
	}
	for _, name := range order {
		f := byName[name]
		if !f.there() && f.note == "" && len(f.kept) == 0 || f.step.Skip != "" && !f.whenFalse() {
			continue
		}
		t.Steps = append(t.Steps, Step{
			Name: name, Cluster: f.cluster, Release: f.release, Chart: f.chart, Goes: going(f.goes), Kept: f.kept, Note: f.note,
		})
	}
	for _, p := range l.places {
		s := Step{Name: namespaces, Cluster: p.cluster}
		if len(p.foreign) == 0 {
			s.Goes = []Going{{Object: "Namespace/" + p.Namespace}}
		} else {
			s.Kept = []Kept{{Object: "Namespace/" + p.Namespace, Reason: removal.Occupied(p.foreign)}}
		}
		if n := len(t.Steps); n > 0 && t.Steps[n-1].Name == namespaces && t.Steps[n-1].Cluster == p.cluster {
			t.Steps[n-1].Goes, t.Steps[n-1].Kept = append(t.Steps[n-1].Goes, s.Goes...), append(t.Steps[n-1].Kept, s.Kept...)
			continue
		}
		t.Steps = append(t.Steps, s)
	}
	return t
}

func going(objects []removal.Object) []Going {
	var all []Going
	for _, o := range objects {
		all = append(all, Going{o.ID(), o.Why})
	}
	slices.SortFunc(all, func(a, b Going) int { return cmpText(a.Object, b.Object) })
	return all
}
