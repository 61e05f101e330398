package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/member"
	"github.com/kplan-dev/kplan/fleet/export"
	"github.com/kplan-dev/kplan/fleet/freeze"
	"github.com/kplan-dev/kplan/fleet/inventory"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
)

// maxRollout is how large a rollout is at most, unpacked.
const maxRollout = 64 << 20

// memberLockWait is how long a pod waits for another run of the plan: so that the lock of one
// that is gone is taken over.
const memberLockWait = 2 * time.Minute

// memberOptions are the flags of what exported pods run.
type memberOptions struct {
	*app
	inputs         *load.Options
	rollout, wave  string
	bundle, digest string
	progress       string
}

func newFleetMember(a *app) *cobra.Command {
	o := &memberOptions{app: a}
	cmd := &cobra.Command{
		Use:    "member [CLUSTER]",
		Short:  "Run an exported plan, in a pod, on one cluster of a fleet or on that of the pod",
		Hidden: true,
		Args:   cobra.MaximumNArgs(1),
		RunE:   func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.rollout, "rollout", "", "the `file` of a fleet's rollout")
	flags.StringVar(&o.wave, "wave", "", "run on the cluster of this wave whose index the Job says, in the place of CLUSTER")
	flags.StringVar(&o.bundle, "bundle", "", "the `file` with the plan's files")
	flags.StringVar(&o.digest, "digest", "", "the digest of the plan's files, where no rollout says it")
	o.inputs = addInputsOf(cmd, func([]string) string { return "" })
	addProgress(cmd, &o.progress)
	a.addLogs(cmd)
	a.addMap(cmd)
	return cmd
}

func (o *memberOptions) run(ctx context.Context, args []string) error {
	mode, err := o.mode(o.progress)
	if err != nil {
		return err
	}
	if mode == ui.TTY {
		mode = ui.Plain
	}
	var r *fleet.Rollout
	if o.rollout != "" {
		if r, err = readRollout(o.rollout); err != nil {
			return &usageError{err: err}
		}
		o.digest = r.Bundle
	}
	switch {
	case r == nil && (len(args) > 0 || o.wave != ""):
		return usagef("a cluster is one of a rollout: name its file by --rollout")
	case r != nil && (len(args) > 0) == (o.wave != ""):
		return usagef("name a cluster of the rollout, or a wave")
	}
	file, clean, err := o.unpack()
	if err != nil {
		return err
	}
	defer clean()
	if r == nil {
		return o.here(ctx, mode, file)
	}
	c, err := o.cluster(r, args)
	if err != nil {
		return err
	}
	return o.there(ctx, mode, file, r, c)
}

// readRollout reads a rollout that kplan export has packed.
func readRollout(file string) (*fleet.Rollout, error) {
	packed, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var text []byte
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(zip, maxRollout))
	}
	r := &fleet.Rollout{}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the rollout %s: %w", file, err)
	case !r.Sealed():
		return nil, fmt.Errorf("the rollout %s is not what its digest says: somebody has changed it", file)
	}
	return r, nil
}

// unpack writes the plan's files to a folder of their own, and returns the path of the plan
// and what removes the folder.
func (o *memberOptions) unpack() (file string, clean func(), err error) {
	archive, err := os.ReadFile(o.bundle)
	if err != nil {
		return "", nil, &usageError{err: err}
	}
	dir, err := os.MkdirTemp("", "kplan-member-")
	if err != nil {
		return "", nil, err
	}
	clean = func() { _ = os.RemoveAll(dir) }
	b, err := freeze.Open(archive, o.digest)
	if err == nil {
		file, err = b.Unpack(dir)
	}
	if err != nil {
		clean()
		return "", nil, &usageError{err: err}
	}
	return file, clean, nil
}

// cluster is the one that is meant.
func (o *memberOptions) cluster(r *fleet.Rollout, args []string) (fleet.Cluster, error) {
	if len(args) > 0 {
		c := r.Cluster(args[0])
		if c == nil {
			return fleet.Cluster{}, usagef("the rollout has no cluster %q", args[0])
		}
		return *c, nil
	}
	index, err := strconv.Atoi(os.Getenv("JOB_COMPLETION_INDEX"))
	if err != nil {
		return fleet.Cluster{}, usagef("JOB_COMPLETION_INDEX: %w", err)
	}
	all := export.Reachable(r, o.wave)
	if index < 0 || index >= len(all) {
		return fleet.Cluster{}, usagef("the wave %s has no cluster %d", o.wave, index)
	}
	return all[index], nil
}

// here runs the plan on the cluster that the pod is in, as kplan run does.
func (o *memberOptions) here(ctx context.Context, mode ui.Mode, file string) error {
	run := &runOptions{
		app: o.app, inputs: o.inputs, parallel: runner.DefaultParallel, lockWait: memberLockWait, progress: string(mode),
		preflight: preflightWarn, recordIn: []string{inCluster}, wanted: &[]string{},
	}
	p, err := run.open(file)
	if err != nil {
		return err
	}
	return run.runPlan(ctx, p)
}

// there runs the plan on a cluster of the fleet.
func (o *memberOptions) there(ctx context.Context, mode ui.Mode, file string, r *fleet.Rollout, c fleet.Cluster) error {
	ctx, signals := interrupt.Context(ctx)
	defer signals.Release()
	renderer := o.renderer(mode)
	values := *o.inputs
	values.Decrypter = o.keys
	kubeconfigs := &inventory.Kubeconfigs{Management: o.secretsHere(c)}
	id := ledger.NewRunID()
	m := member.Config{
		File: file, Inputs: values, Target: r.Target, Kubeconfig: kubeconfigs.Read, Flags: o.flags, Sources: o.sources, UserAgent: userAgent(),
		By: runBy(id), Program: readBuild().Version, LockWait: memberLockWait, Guards: true,
	}
	began := &seen{}
	result := m.Do(ctx, member.Run{
		Cluster: c, Own: r.Own()[c.Name], ID: id, Observers: []runner.Observer{began, renderer}, Abort: signals.Abort,
		Tell: func(text string) { fmt.Fprintln(o.stderr, o.oneLine(text)) },
	})
	err := renderer.Close()
	if result.State.Good() {
		return err
	}
	failed := runner.WithHint(&codeError{errors.New(result.Error), memberCode(ctx, result)}, result.Hint)
	if began.any && mode.Reports() {
		failed = &shownError{failed}
	}
	return errors.Join(failed, err)
}

// seen notes whether there was an event.
type seen struct{ any bool }

func (s *seen) Observe(runner.Event) { s.any = true }

// secretsHere reads Secrets of the cluster that the pod is in, whatever the fleet calls it.
func (o *memberOptions) secretsHere(c fleet.Cluster) *inventory.Management {
	name := ""
	if c.Access.Secret != nil {
		name = c.Access.Secret.Cluster
	}
	inPod := *o.flags.KubeConfig == "" && os.Getenv("KUBECONFIG") == ""
	return inventory.NewManagement(inventory.Options{
		Clusters: map[string]plan.Cluster{name: {}}, InCluster: map[string]bool{name: inPod}, Flags: o.flags, UserAgent: userAgent(),
	})
}

// memberCode is the exit code of a result: that of kplan run.
func memberCode(ctx context.Context, r *fleet.Result) int {
	if cause := context.Cause(ctx); r.State == fleet.Cancelled && cause != nil {
		return exitCode(cause)
	}
	if r.Cause != nil {
		switch r.Cause.Class {
		case fleet.Timeout, fleet.WebhookTimeout:
			return exitTimeout
		case fleet.Locked:
			return exitLocked
		case fleet.BadPlan:
			return exitUsage
		default:
		}
	}
	return exitFailed
}
