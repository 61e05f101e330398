// Package freeze makes of a fleet, its plan and the clusters that were found the rollout
// that a run does: which clusters in which waves with which values, where each of them is,
// and which files the plan is, all under one digest.
//
// It finds no clusters (package inventory does) and runs nothing. It asks for the
// kubeconfigs of clusters, and not the clusters themselves.
package freeze

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/inventory"
	"github.com/kplan-dev/kplan/fleet/load"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// Input is what a rollout is made of.
type Input struct {
	Fleet *load.Fleet
	// Found are the clusters of each entry of the fleet's inventory.
	Found []inventory.Found
	// Values are those of the plan's variables that are given from outside; they win over
	// the fleet's. Its Fleet is not looked at.
	Values load.Options
	// Kubeconfig reads the kubeconfig of a cluster, side by side with those of others. It
	// may be nil: then it is not pinned where the clusters are.
	Kubeconfig func(context.Context, fleet.Cluster) ([]byte, error)
}

// Frozen is a rollout and what there is to say of it.
type Frozen struct {
	*fleet.Rollout
	// Bundle has the plan's files.
	Bundle *Bundle
	// Notes are clusters that were left out, and Unselected counts those that select leaves
	// out.
	Notes      []inventory.Note
	Unselected int
	// Withheld are sensitive variables whose values are given from outside: they are not in
	// the rollout, and whoever runs it must have them.
	Withheld []string
	// Warnings are sentences about the rollout as a whole.
	Warnings []string
}

// Freeze makes a rollout. The error joins all faults that can be told at once, clusters with
// the same fault in one; those of the fleet or the plan have a method Usage, or are a
// document.Diagnostics.
func Freeze(ctx context.Context, in Input) (*Frozen, error) {
	m, faults := membersOf(in.Fleet, in.Found)
	v, err := valuesOf(ctx, in, m.clusters)
	if err := errors.Join(faults, err); err != nil {
		return nil, err
	}
	if in.Kubeconfig != nil {
		if err := pin(ctx, in, m.clusters); err != nil {
			return nil, err
		}
	}
	if err := m.distinctPlaces(); err != nil {
		return nil, err
	}
	f := &Frozen{Rollout: rolloutOf(in.Fleet, m.clusters, v), Notes: m.notes, Unselected: m.unselected, Withheld: v.withheld}
	if f.Bundle, err = v.files.bundle(); err != nil {
		return nil, err
	}
	f.Rollout.Bundle = f.Bundle.Digest
	f.warn(v)
	f.Seal()
	return f, nil
}

// rolloutOf is the rollout but for its bundle and digest.
func rolloutOf(f *load.Fleet, clusters []fleet.Cluster, v *values) *fleet.Rollout {
	r := &fleet.Rollout{
		Version: fleet.RolloutVersion, Fleet: f.Metadata.Name, Plan: v.plan, Target: f.Plan.Cluster, Clusters: clusters, Engine: "local",
		Limits: fleet.Limits{SameCause: limit(f.Budget.SameCause, len(clusters)), Unreachable: limit(f.Budget.Unreachable, len(clusters))},
	}
	if f.Engine.Kubernetes != nil {
		r.Engine = "kubernetes"
	}
	sizes := map[string]int{}
	for _, c := range clusters {
		sizes[c.Wave]++
	}
	for _, w := range f.Waves {
		info := fleet.WaveInfo{Name: w.Name, Parallel: w.Parallel, Approve: w.Approve, Clusters: sizes[w.Name]}
		if info.Parallel == 0 {
			info.Parallel = fleet.DefaultParallel
		}
		if w.MaxFailures != nil {
			info.MaxFailures = w.MaxFailures.Of(info.Clusters)
		}
		if w.Soak != nil {
			info.SoakSeconds = time.Duration(*w.Soak).Seconds()
		}
		r.Waves = append(r.Waves, info)
	}
	return r
}

// limit is a limit as a number of so many clusters; nil is none.
func limit(l *fleet.Limit, total int) *int {
	if l == nil {
		return nil
	}
	return new(l.Of(total))
}

// warn says what is odd about the rollout.
func (f *Frozen) warn(v *values) {
	for _, w := range f.Waves {
		if w.Clusters == 0 {
			f.Warnings = append(f.Warnings, fmt.Sprintf("wave %s has no clusters: the next one begins at once", w.Name))
		}
	}
	if v.fetches && !f.Bundle.Locked {
		f.Warnings = append(f.Warnings, "the plan fetches charts or manifests and has no lock file: clusters may get different ones; write it by: kplan lock PLAN")
	}
}

// Check returns an error when the plan's files are not those of a rollout any more. Values
// are those that are given from outside.
func Check(ctx context.Context, r *fleet.Rollout, planFile string, values load.Options) error {
	b, err := BundleOf(ctx, r, planFile, values)
	if err != nil {
		return err
	}
	if b.Digest != r.Bundle {
		return runner.WithHint(errMoved, "look at the fleet anew: kplan fleet plan")
	}
	return nil
}

var errMoved = usageError{errors.New("the files of the plan are not those that were frozen any more")}

// usageError is a fault of what the user gave.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage tells the command line that the user's input is at fault.
func (e usageError) Usage() bool { return true }

// fetches reports whether a step gets something from elsewhere.
func fetches(s plan.Step) bool {
	switch {
	case s.Helm != nil:
		return !s.Helm.IsLocal()
	case s.Apply != nil:
		return slices.ContainsFunc(s.Apply.Files, plan.IsAddress) || plan.IsAddress(s.Apply.Kustomize)
	}
	return false
}
