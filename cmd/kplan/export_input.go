package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/export"
	"github.com/kplan-dev/kplan/fleet/freeze"
	"github.com/kplan-dev/kplan/fleet/inventory"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load"
)

// read reads a plan, or a fleet and its plan.
func (r *exportRun) read(ctx context.Context, path string) (*export.Input, error) {
	values := *r.inputs
	values.Decrypter = r.keys
	if isFleet(path) {
		return r.readFleet(ctx, path, values)
	}
	p, err := r.app.read(path, *r.inputs)
	if err != nil {
		return nil, &usageError{err: err}
	}
	if r.bundle != nil {
		return nil, &usageError{errors.New("a plan in a bundle cannot be exported"), "unpack the bundle, and name the plan in it"}
	}
	in := &export.Input{Plan: p}
	if !r.Pods {
		return in, nil
	}
	b, err := freeze.BundleOf(ctx, &fleet.Rollout{Clusters: []fleet.Cluster{{}}}, path, values)
	if err != nil {
		return nil, err
	}
	in.Bundle, err = b.Archive()
	in.Digest = b.Digest
	return in, err
}

// readFleet reads a fleet, and freezes it: its inventories are asked, its clusters are not.
func (r *exportRun) readFleet(ctx context.Context, path string, values load.Options) (*export.Input, error) {
	f, err := r.loadFleet(path, *r.inputs)
	if err != nil {
		return nil, &usageError{err: err}
	}
	managed := r.managed(f)
	found, err := managed.Find(ctx, f.Inventory)
	if err != nil {
		return nil, err
	}
	kubeconfigs := inventory.Kubeconfigs{Management: managed}
	frozen, err := freeze.Freeze(ctx, freeze.Input{Fleet: f, Found: found, Values: values, Kubeconfig: kubeconfigs.Read})
	if err != nil {
		return nil, err
	}
	for _, text := range frozen.Warnings {
		fmt.Fprintln(r.stderr, "warning: "+r.oneLine(text))
	}
	for _, n := range frozen.Notes {
		fmt.Fprintln(r.stderr, "note: "+words.Line(n.String()))
	}
	src, err := readBounded(path)
	if err != nil {
		return nil, &usageError{err: err}
	}
	source, _, _ := document.Read(path, src, document.Options{Keys: document.FleetKeys}, &document.Faults{})
	in := &export.Input{Rollout: frozen.Rollout, Fleet: source, For: r.plansOf(f.PlanName, values)}
	if in.Plan, err = in.For(frozen.Clusters[0]); err != nil {
		return nil, &usageError{err: err}
	}
	in.Bundle, err = frozen.Bundle.Archive()
	return in, err
}

// plansOf reads the plan with the values of clusters: each set of values once.
func (r *exportRun) plansOf(file string, values load.Options) func(fleet.Cluster) (*plan.Plan, error) {
	known := map[string]*plan.Plan{}
	return func(c fleet.Cluster) (*plan.Plan, error) {
		key, err := json.Marshal(c.Vars)
		if err != nil {
			return nil, err
		}
		if p := known[string(key)]; p != nil {
			return p, nil
		}
		in := values
		in.Fleet, in.Unknown = c.Vars, true
		p, err := load.File(file, in)
		if err != nil {
			return nil, err
		}
		r.keep(p)
		known[string(key)] = p
		return p, load.CheckFiles(p)
	}
}
