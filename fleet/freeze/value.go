package freeze

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/load"
	"github.com/kplan-dev/kplan/plan"
	planload "github.com/kplan-dev/kplan/plan/load"
)

// values are what is known of the plan once it was read for all clusters.
type values struct {
	plan     string // its name
	files    *files
	withheld []string
	fetches  bool
	clusters map[string]bool // of the plan, on which its steps run
}

// valuesOf gives each cluster the values of the plan's variables, and reads the plan with
// them: each set of values once, however many clusters have it.
func valuesOf(ctx context.Context, in Input, clusters []fleet.Cluster) (*values, error) {
	var (
		faults Groups
		given  = make([]map[string]any, len(clusters))
		failed = make([]bool, len(clusters))
	)
	for i, c := range clusters {
		v, err := in.Fleet.Vars(c)
		faults.Add(fleet.BadPlan, c, err)
		given[i], failed[i] = v, err != nil
	}
	r := &reader{planFile: in.Fleet.PlanFile, options: in.Values, known: map[string]*reading{}}
	ask := make([]*reading, len(clusters))
	for i := range clusters {
		if !failed[i] {
			ask[i] = r.want(given[i])
		}
	}
	if err := r.read(ctx); err != nil {
		return nil, err
	}
	for i := range clusters {
		if a := ask[i]; a != nil {
			faults.Add(fleet.BadPlan, clusters[i], a.err)
			clusters[i].Vars, clusters[i].Annotations = a.vars, nil // they had their say, and change often
		}
	}
	if err := faults.Err(); err != nil {
		return nil, r.plainly(err, clusters)
	}
	v := r.values()
	return v, v.onTarget(in.Fleet)
}

// onTarget refuses a plan that does nothing on the cluster which those of the fleet take the
// place of: it would do all of it on another one, again and again.
func (v *values) onTarget(f *load.Fleet) error {
	target := f.Plan.Cluster
	switch {
	case v.clusters[target] || len(v.clusters) == 0:
		return nil
	case target == "":
		return f.Fault("name one of the plan's clusters by cluster: each cluster of the fleet takes its place", "every step of the plan names a cluster, and the fleet names none", "plan")
	}
	return f.Fault("name the cluster of the plan's steps: each cluster of the fleet takes its place",
		fmt.Sprintf("no step of the plan runs on its cluster %q", target), "plan", "cluster")
}

// reader reads one plan with several sets of values.
type reader struct {
	planFile string
	options  load.Options
	known    map[string]*reading
	order    []*reading
	files    files
}

// reading is a plan that was read with one set of values.
type reading struct {
	given map[string]any
	vars  map[string]any
	err   error

	name     string
	withheld []string
	fetches  bool
	clusters map[string]bool // of the plan, on which its steps run
}

// want has the plan read with values, and returns where the result will be.
func (r *reader) want(given map[string]any) *reading {
	key, err := json.Marshal(given)
	if err != nil {
		return &reading{err: err}
	}
	a := r.known[string(key)]
	if a == nil {
		a = &reading{given: given}
		r.known[string(key)] = a
		r.order = append(r.order, a)
	}
	return a
}

// read reads the plan with all values that are wanted, side by side.
func (r *reader) read(ctx context.Context) error {
	var (
		group errgroup.Group
		mu    sync.Mutex // guards files
	)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, a := range r.order {
		group.Go(func() error { // ends when the plan is read, which takes no network
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			var p *plan.Plan
			if p, a.err = loadPlan(r.planFile, r.options, a.given); a.err != nil {
				return nil
			}
			a.take(p)
			found, err := filesOf(p)
			if err != nil {
				a.err = err
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			r.files.add(found)
			return nil
		})
	}
	return group.Wait()
}

// loadPlan reads a plan as a cluster of a fleet has it. Secrets that only the run knows are
// unknown.
func loadPlan(file string, in load.Options, given map[string]any) (*plan.Plan, error) {
	in.Fleet, in.Unknown = given, true
	p, err := planload.File(file, in)
	if err != nil {
		return nil, err
	}
	return p, planload.CheckFiles(p)
}

// take notes what a plan says. Values that come from this machine are part of the rollout,
// so that it means the same on all; secrets are not.
func (a *reading) take(p *plan.Plan) {
	a.name = p.Metadata.Name
	for _, v := range p.Variables {
		switch v.Source {
		case plan.SourceSet, plan.SourceVarFile, plan.SourceFleet, plan.SourceEnv:
		default:
			continue
		}
		if v.Sensitive {
			a.withheld = append(a.withheld, v.Name)
			continue
		}
		if a.vars == nil {
			a.vars = map[string]any{}
		}
		a.vars[v.Name] = v.Value
	}
	a.fetches = slices.ContainsFunc(p.Steps, fetches)
	a.clusters = map[string]bool{}
	for _, s := range p.Steps {
		a.clusters[p.StepCluster(s)] = true
	}
}

// plainly returns the faults of the plan alone where no cluster has any other: they have
// their lines then, and no cluster has to do with them.
func (r *reader) plainly(err error, clusters []fleet.Cluster) error {
	group, ok := errors.AsType[*GroupError](err)
	if !ok || len(group.Clusters) != len(clusters) || len(clusters) == 0 {
		return err
	}
	if _, e := loadPlan(r.planFile, r.options, nil); e != nil && textOf(e) == textOf(group.First) {
		return e
	}
	return err
}

// values sums up.
func (r *reader) values() *values {
	v := &values{files: &r.files, clusters: map[string]bool{}}
	withheld := map[string]bool{}
	for _, a := range r.order {
		v.plan = a.name
		v.fetches = v.fetches || a.fetches
		maps.Copy(v.clusters, a.clusters)
		for _, name := range a.withheld {
			withheld[name] = true
		}
	}
	v.withheld = slices.Sorted(maps.Keys(withheld))
	return v
}

// BundleOf reads the files of the plan again, as the clusters of a rollout have it.
func BundleOf(ctx context.Context, of *fleet.Rollout, planFile string, in load.Options) (*Bundle, error) {
	r := &reader{planFile: planFile, options: in, known: map[string]*reading{}}
	for _, c := range of.Clusters {
		r.want(c.Vars)
	}
	if err := r.read(ctx); err != nil {
		return nil, err
	}
	for _, a := range r.order {
		if a.err != nil {
			return nil, a.err
		}
	}
	return r.files.bundle()
}
