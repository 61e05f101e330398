package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	kube "k8s.io/client-go/kubernetes"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes/object"
	"github.com/kplan-dev/kplan/fleet/freeze"
	"github.com/kplan-dev/kplan/fleet/inventory"
	fleetload "github.com/kplan-dev/kplan/fleet/load"
	"github.com/kplan-dev/kplan/plan/load"
)

// fleetImage is the repository of kplan's own images.
const fleetImage = "ghcr.io/kplan-dev/kplan"

// storeOf connects to where the runs of a fleet's engine are.
func storeOf(ctx context.Context, m *inventory.Management, e *fleet.KubernetesEngine) (kubernetes.Store, error) {
	config, _, err := m.Config(ctx, e.Cluster)
	if err != nil {
		return kubernetes.Store{}, err
	}
	client, err := kube.NewForConfig(config)
	return kubernetes.Store{Client: client, Namespace: e.Namespace}, err
}

// fleetRemote is a run of a fleet in a management cluster.
type fleetRemote struct {
	*app
	*kubernetes.Run
	store kubernetes.Store
	file  string // the fleet's; "" is the default one
}

// remote opens a run in the management cluster of the fleet file, the newest one by default.
// It is nil when the file's engine is no cluster. Without a fleet file it is the namespace of
// the command line, if that names one.
func (r *fleetRuns) remote(ctx context.Context, run string, want []kubernetes.Right) (*fleetRemote, error) {
	engine, name, managed, err := r.engine()
	if engine == nil || err != nil {
		return nil, err
	}
	at := &fleetRemote{app: r.app, file: r.file}
	if at.store, err = storeOf(ctx, managed, engine); err != nil {
		return nil, err
	}
	if run != "" {
		at.Run, err = at.store.Open(ctx, object.Run(run))
	} else {
		at.Run, err = at.store.Latest(ctx, name)
	}
	if err == nil {
		return at, nil
	}
	if e := at.store.Check(ctx, want); errors.As(e, new(*kubernetes.ForbiddenError)) {
		return nil, e // which says more
	}
	return nil, err
}

// engine is the engine of the fleet file, nil when that is not kubernetes, and the fleet's
// name.
func (r *fleetRuns) engine() (*fleet.KubernetesEngine, string, *inventory.Management, error) {
	src, err := os.ReadFile(r.file)
	if errors.Is(err, fs.ErrNotExist) && *r.flags.Namespace != "" {
		m := inventory.NewManagement(inventory.Options{Flags: r.flags, UserAgent: userAgent()})
		return &fleet.KubernetesEngine{Namespace: *r.flags.Namespace}, "", m, nil
	}
	if err != nil {
		return nil, "", nil, nil //nolint:nilerr // who looks beside the file says so
	}
	f, err := fleetload.Parse(r.file, src)
	if err != nil || f.Engine.Kubernetes == nil {
		return nil, "", nil, err
	}
	return f.Engine.Kubernetes, f.Metadata.Name, r.managed(f), nil
}

// command is what a user types to have something done to the run.
func (r *fleetRemote) command(verb string, args ...string) string {
	return r.fleetCommand(verb, r.file, append(args, string(r.Spec.Run))...)
}

// specOf is what a run of a frozen fleet is made of.
func (w *fleetWork) specOf(ctx context.Context, id string, rollout *fleet.Rollout, bundle *freeze.Bundle) (*object.Spec, []byte, error) {
	engine := *w.fleet.Engine.Kubernetes
	if len(w.withheld) > 0 {
		return nil, nil, &usageError{
			err:  fmt.Errorf("sensitive variables are given from outside, and workers in a cluster do not have their values: %s", words.List(w.withheld, 5)),
			hint: "read them from a Secret of the clusters (secret: in the plan), or use the local engine",
		}
	}
	if err := inReach(rollout, engine); err != nil {
		return nil, nil, err
	}
	if err := object.Check(engine); err != nil {
		return nil, nil, &usageError{err: err}
	}
	build := readBuild()
	if engine.Image == "" {
		if build.Version == "devel" || build.Version == "" {
			return nil, nil, usagef("engine.kubernetes.image is not set, and this kplan is no release that has an image of its own")
		}
		engine.Image = fleetImage + ":" + build.Version
	}
	archive, err := bundle.Archive()
	if err != nil {
		return nil, nil, err
	}
	spec := &object.Spec{
		Run: object.Run(id), Rollout: rollout, Engine: engine, Grace: object.Grace(w.longest()), By: runBy(id), Program: build.Version,
		Parallel: w.parallel, LockWait: int64(w.lockWait / time.Second), Unrecorded: slices.Contains(w.recordIn, inNone),
		Began: time.Now().UTC(), Bundle: object.Bundle{Digest: object.Digest(archive)},
	}
	if engine.Bundle != "" {
		if spec.Bundle, err = w.push(ctx, engine.Bundle, archive); err != nil {
			return nil, nil, err
		}
		archive = nil
	}
	return spec, archive, nil
}

// inReach refuses a rollout that workers in a cluster cannot run.
func inReach(r *fleet.Rollout, e fleet.KubernetesEngine) error {
	var far []string
	for _, c := range r.Clusters {
		if c.Access.Secret == nil || c.Access.Secret.Cluster != e.Cluster {
			far = append(far, c.Name)
		}
	}
	if len(far) == 0 {
		return nil
	}
	return &usageError{
		err: fmt.Errorf("workers read kubeconfigs from Secrets of the engine's cluster, %s, and these clusters have theirs elsewhere: %s",
			cmp.Or(e.Cluster, "that of the command line"), words.List(far, 5)),
		hint: "name the inventory's cluster in engine.kubernetes.cluster, or use the local engine",
	}
}

// longest is how long the longest step of the plan may take.
func (w *fleetWork) longest() time.Duration {
	values := *w.inputs
	values.Decrypter, values.Unknown = w.keys, true
	p, err := load.File(w.fleet.PlanFile, values)
	if err != nil {
		return time.Hour // it needs values of a cluster: the bound of a grace
	}
	var all []time.Duration
	for _, s := range p.Steps {
		all = append(all, p.StepTimeout(s))
	}
	if len(all) == 0 {
		return 0
	}
	return slices.Max(all)
}
