package main

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes/object"
	"github.com/kplan-dev/kplan/fleet/freeze"
	"github.com/kplan-dev/kplan/plan/load"
)

func newFleetRBAC(a *app) *cobra.Command {
	var (
		in     *load.Options
		runs   []string
		rounds int
	)
	cmd := &cobra.Command{
		Use:   "rbac [FLEET]",
		Short: "Write the roles that the pods of a fleet's runs need",
		Long: `Write the ServiceAccounts of the workers and the driver of a fleet whose engine is kubernetes, and the Roles that they need in the management
cluster and no more. Without FLEET it is fleet.yaml of the current folder.

Workers may get the Secrets with the kubeconfigs of the fleet's clusters, each by its name, and ConfigMaps and Jobs of the engine's namespace. The
driver may watch Jobs and pods there, let Jobs go, and write down orders and results. Nobody lists Secrets. What workers may do on the clusters is
what the kubeconfigs allow: see 'kplan rbac' for what the plan needs there.

A run has no name before it begins, so ConfigMaps and Jobs of the engine's namespace are not named: use a namespace that has nothing else. With
--run the roles are for the named runs alone, of which each may be resumed --rounds times.

When clusters join the fleet their Secrets are not named yet: write the roles again.

Exit codes: 0 written, 1 a cluster cannot be asked, 2 bad fleet, plan or usage.`,
		Example: `  kplan fleet rbac fleet.yaml | kubectl --context mgmt apply -f -
  kplan fleet rbac fleet.yaml --run 20261122-161030-3a12cd`,
		Args:              oneFleet,
		ValidArgsFunction: fleetFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, signals := interrupt.Context(cmd.Context())
			defer signals.Release()
			return stopped(ctx, a.fleetRBAC(ctx, args, *in, runs, rounds))
		},
	}
	in = addFleetInputs(cmd)
	cmd.Flags().StringSliceVar(&runs, "run", nil, "the IDs of the only runs that the roles are for (default: all of the namespace)")
	cmd.Flags().IntVar(&rounds, "rounds", 5, "how often each of these may be resumed")
	return cmd
}

// fleetRBAC finds the clusters of a fleet, and writes the roles for their Secrets.
func (a *app) fleetRBAC(ctx context.Context, args []string, in load.Options, runs []string, rounds int) error {
	path, err := a.chooseFleet(args, false)
	if err != nil {
		return err
	}
	f, err := a.loadFleet(path, in)
	if err != nil {
		return &usageError{err: err}
	}
	if f.Engine.Kubernetes == nil {
		return &usageError{err: fmt.Errorf("the engine of %s is not kubernetes: there are no pods", words.Clean(path)), hint: "kplan rbac writes the roles that a plan needs"}
	}
	g := object.Grant{Fleet: f.Metadata.Name, Engine: *f.Engine.Kubernetes, Waves: len(f.Waves), Rounds: max(rounds, 0)}
	for _, run := range runs {
		if err := object.Run(run).Check(); err != nil {
			return &usageError{err: err}
		}
		g.Runs = append(g.Runs, object.Run(run))
	}
	found, err := a.managed(f).Find(ctx, f.Inventory)
	if err != nil {
		return err
	}
	in.Decrypter, in.Unknown = a.keys, true
	frozen, err := freeze.Freeze(ctx, freeze.Input{Fleet: f, Found: found, Values: in})
	if err != nil {
		return err
	}
	if err := inReach(frozen.Rollout, g.Engine); err != nil {
		return err
	}
	g.Clusters = frozen.Clusters
	var out bytes.Buffer
	fmt.Fprintf(&out, "# What the pods of fleet %s need in namespace %s and where its %s have their Secrets.\n",
		words.Clean(g.Fleet), words.Clean(g.Engine.Namespace), words.Count(len(g.Clusters), "cluster"))
	for _, o := range g.Objects() {
		text, err := yamlOf(o)
		if err != nil {
			return fmt.Errorf("writing the roles: %w", err)
		}
		fmt.Fprintf(&out, "---\n%s", text)
	}
	_, err = io.WriteString(a.stdout, out.String())
	return err
}
