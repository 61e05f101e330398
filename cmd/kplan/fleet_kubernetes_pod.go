package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	kube "k8s.io/client-go/kubernetes"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/ui"
	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes/object"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes/worker"
	"github.com/kplan-dev/kplan/fleet/engine/member"
	"github.com/kplan-dev/kplan/fleet/freeze"
	"github.com/kplan-dev/kplan/fleet/inventory"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// podOptions are the flags of what the pods of a fleet's run do.
type podOptions struct {
	*app
	run         string
	round, wave int
	part        string
	digest      string
	namespace   string
	dir         string
	result      string
}

// addPod registers the flags of all pods.
func (o *podOptions) addPod(cmd *cobra.Command) {
	cmd.Hidden, cmd.Args = true, cobra.NoArgs
	flags := cmd.Flags()
	flags.StringVar(&o.run, "run", "", "the run's ID")
	flags.IntVar(&o.round, "round", 1, "the round of the run")
	o.namespace = os.Getenv("KPLAN_NAMESPACE")
}

func newFleetWorker(a *app) *cobra.Command {
	o := &podOptions{app: a}
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run a fleet's plan on the cluster of this pod's index",
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.work(cmd.Context()) },
	}
	o.addPod(cmd)
	flags := cmd.Flags()
	flags.IntVar(&o.wave, "wave", 0, "the number of the wave")
	flags.StringVar(&o.part, "rollout", "", "the digest of the wave's clusters")
	flags.StringVar(&o.digest, "digest", "", "the digest of the rollout")
	flags.StringVar(&o.dir, "dir", filepath.Join(os.TempDir(), "kplan-fleet"), "the folder for the plan's files")
	flags.StringVar(&o.result, "result", "/dev/termination-log", "the file for the result")
	return cmd
}

// codeError ends the process with a code of its own; what there is to say was said.
type codeError struct {
	error
	code int
}

func (o *podOptions) work(ctx context.Context) error {
	ctx, signals := interrupt.Context(ctx)
	defer signals.Release()
	index, err := strconv.Atoi(os.Getenv("JOB_COMPLETION_INDEX"))
	if err != nil {
		return usagef("JOB_COMPLETION_INDEX: %w", err)
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	events := ui.NewJSON(o.stdout)
	again := strings.Trim(os.Getenv("KPLAN_FAILED")+os.Getenv("KPLAN_IGNORED"), "0") != ""
	w := worker.Worker{
		Client: client, Namespace: o.namespace, Run: object.Run(o.run), Round: o.round, Wave: o.wave, Index: index, Part: o.part, Digest: o.digest,
		Again: again,
		Member: member.Config{
			Flags: o.flags, Sources: o.sources, UserAgent: userAgent(), Guards: true,
		},
		Kubeconfig: o.kubeconfigs, Pull: o.pull, Unpack: unpack, Dir: o.dir,
		Observers: []runner.Observer{events}, Tell: func(text string) { fmt.Fprintln(o.stderr, o.oneLine(text)) }, Abort: signals.Abort,
	}
	result, code := w.Do(ctx)
	err = errors.Join(events.Close(), worker.Write(o.result, result))
	if result.Error != "" {
		fmt.Fprintln(o.stderr, o.oneLine(result.Error))
	}
	if err != nil {
		o.show(err)
	}
	if code != 0 {
		return &shownError{&codeError{errors.New("the worker has no success"), code}}
	}
	return err
}

// client asks the cluster that the pod is in, or that the flags say.
func (o *podOptions) client() (kube.Interface, error) {
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.UserAgent = -1, userAgent()
	return kube.NewForConfig(config)
}

// kubeconfigs reads those of the clusters of a run from the cluster that the pod is in.
func (o *podOptions) kubeconfigs(s *object.Spec) func(context.Context, fleet.Cluster) ([]byte, error) {
	m := inventory.NewManagement(inventory.Options{
		Clusters: map[string]plan.Cluster{s.Engine.Cluster: {}}, InCluster: map[string]bool{s.Engine.Cluster: o.inPod()}, Flags: o.flags, UserAgent: userAgent(),
	})
	return (&inventory.Kubeconfigs{Management: m}).Read
}

func (o *podOptions) inPod() bool { return *o.flags.KubeConfig == "" && os.Getenv("KUBECONFIG") == "" }

// unpack writes the files of a plan below a folder.
func unpack(archive []byte, digest, dir string) (string, error) {
	b, err := freeze.Open(archive, digest)
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil { // of a worker before, in the same pod
		return "", err
	}
	return b.Unpack(dir)
}

func newFleetDriver(a *app) *cobra.Command {
	o := &podOptions{app: a}
	cmd := &cobra.Command{
		Use:   "driver",
		Short: "Let the waves of a fleet's run go",
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.drive(cmd.Context()) },
	}
	o.addPod(cmd)
	return cmd
}

// drive lets the waves go, and writes the run's events.
func (o *podOptions) drive(ctx context.Context) error {
	ctx, signals := interrupt.Context(ctx)
	defer signals.Release()
	client, err := o.client()
	if err != nil {
		return err
	}
	run, err := kubernetes.Store{Client: client, Namespace: o.namespace}.Open(ctx, object.Run(o.run))
	if err != nil {
		return err
	}
	d := kubernetes.Driver{Run: run, Round: o.round, Observe: func(e fleet.Event) {
		if text, err := json.Marshal(e); err == nil {
			_, _ = o.stdout.Write(append(text, '\n'))
		}
	}}
	_, err = d.Do(ctx)
	return err // how the clusters fared is no failure of the driver
}
