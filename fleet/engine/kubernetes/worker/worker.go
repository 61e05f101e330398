// Package worker is what the pods of a fleet's run do: it runs the plan on the cluster of its
// index, unless people or a limit say that nothing new starts, and leaves the result for the
// driver.
package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes/object"
	"github.com/kplan-dev/kplan/fleet/engine/member"
	"github.com/kplan-dev/kplan/runner"
)

// lockWait is how long a worker waits at least for another run of the plan: so that the lock
// of one that is gone is taken over.
const lockWait = 2 * time.Minute

// Worker is one pod of a wave's Job.
type Worker struct {
	Client    kubernetes.Interface
	Namespace string
	Run       object.Run
	// Round and Wave tell the Job, and Index which of its clusters is this worker's.
	Round, Wave, Index int
	// Part is the digest of what the clusters' ConfigMap has, and Digest the rollout's.
	Part, Digest string
	// Again says that another worker was at the cluster before.
	Again bool
	// Member runs the plan; what it takes from the run is set here.
	Member member.Config
	// Kubeconfig gives what reads the kubeconfigs of a run's clusters.
	Kubeconfig func(*object.Spec) func(context.Context, fleet.Cluster) ([]byte, error)
	// Pull gets an archive from a registry.
	Pull func(context.Context, object.Bundle) ([]byte, error)
	// Unpack writes the files of an archive to a folder, if their digest is that of the
	// rollout, and returns the path of the plan.
	Unpack func(archive []byte, digest, dir string) (string, error)
	// Dir is a folder for the plan's files.
	Dir string
	// Observers see the events of the plan's run.
	Observers []runner.Observer
	// Tell hears what people should know.
	Tell func(string)
	// Abort is as package runner has it.
	Abort <-chan struct{}
}

// Do runs the plan on the worker's cluster. The code is what the process is to exit with.
func (w *Worker) Do(ctx context.Context) (r *fleet.Result, code int) {
	job, err := w.wait(ctx)
	if err != nil {
		return w.before(ctx, err)
	}
	spec, m, err := w.read(ctx, job)
	if err != nil {
		return w.before(ctx, err)
	}
	c := w.Member
	if c.File, err = w.files(ctx, spec); err != nil {
		return w.before(ctx, fmt.Errorf("getting the plan's files: %w", err))
	}
	c.Kubeconfig, c.Target, c.By, c.Program = w.Kubeconfig(spec), spec.Rollout.Target, spec.By, spec.Program
	c.LockWait, c.Unrecorded = max(lockWait, time.Duration(spec.LockWait)*time.Second), spec.Unrecorded
	r = c.Do(ctx, member.Run{
		Cluster: m.Cluster, Own: m.Own, Again: w.Again || w.Round > 1, Seat: fmt.Sprintf("%s/%d", job.UID, w.Index),
		Observers: w.Observers, Tell: w.Tell, Abort: w.Abort,
	})
	return r, codeOf(ctx, r)
}

// codeOf is how the process ends with a result.
func codeOf(ctx context.Context, r *fleet.Result) int {
	switch {
	case r.State.Good():
		return 0
	case r.State == fleet.NotStarted:
		return object.ExitNotStarted
	case r.State == fleet.Cancelled:
		if by, is := errors.AsType[*runner.Interrupted](context.Cause(ctx)); is && by.Signal == os.Interrupt {
			return object.ExitInterrupted
		}
		return object.ExitTerminated
	case r.Cause != nil && r.Cause.Class == fleet.Unreachable:
		return object.ExitUnreachable
	}
	return object.ExitFailed
}

// before is the result when the plan could not begin.
func (w *Worker) before(ctx context.Context, err error) (*fleet.Result, int) {
	stopped := (*stoppedError)(nil)
	r := &fleet.Result{State: fleet.Failed, Ended: time.Now().UTC()}
	switch {
	case errors.As(err, &stopped):
		r.State = fleet.NotStarted
		w.Tell(err.Error())
		return r, object.ExitNotStarted
	case ctx.Err() != nil: // nothing began: a successor does as well
		r.State = fleet.Cancelled
		return r, codeOf(ctx, r)
	}
	r.Error, r.Hint = err.Error(), runner.HintOf(err)
	class, code := fleet.BadPlan, object.ExitFailed
	if away(err) {
		class, code = fleet.Lost, object.ExitUnreachable
	}
	r.Cause = fleet.NewCause(class, "", err.Error())
	return r, code
}

// read gets the run and the worker's cluster. Both are checked against the digests that the
// Job names.
func (w *Worker) read(ctx context.Context, job *batchv1.Job) (*object.Spec, *object.Member, error) {
	maps := w.Client.CoreV1().ConfigMaps(w.Namespace)
	root, err := patiently(ctx, func() (*configMap, error) { return maps.Get(ctx, w.Run.Rollout(), metav1.GetOptions{}) })
	if err != nil {
		return nil, nil, fmt.Errorf("reading the rollout: %w", err)
	}
	spec, err := object.ReadSpec(root)
	if err != nil {
		return nil, nil, err
	}
	if spec.Rollout.Digest != w.Digest {
		return nil, nil, &object.ChangedError{What: "the rollout", Want: w.Digest, Got: spec.Rollout.Digest}
	}
	part, err := patiently(ctx, func() (*configMap, error) { return maps.Get(ctx, w.Run.Clusters(w.Wave), metav1.GetOptions{}) })
	if err != nil {
		return nil, nil, fmt.Errorf("reading the clusters of the rollout: %w", err)
	}
	all, err := object.ReadClusters(part, w.Part)
	if err != nil {
		return nil, nil, err
	}
	mine, err := object.ParseIndexes(job.Annotations[object.AnnotationClusters], len(all))
	if err == nil && w.Index >= len(mine) {
		err = fmt.Errorf("it has %d clusters, and no index %d", len(mine), w.Index)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading Job %s: %w", job.Name, err)
	}
	return spec, &all[mine[w.Index]], nil
}

// files gets the plan's files, and returns the path of the plan.
func (w *Worker) files(ctx context.Context, spec *object.Spec) (string, error) {
	archive, err := w.archive(ctx, spec)
	if err != nil {
		return "", err
	}
	return w.Unpack(archive, spec.Rollout.Bundle, w.Dir)
}

func (w *Worker) archive(ctx context.Context, spec *object.Spec) ([]byte, error) {
	if spec.Bundle.Repository != "" {
		b, err := w.Pull(ctx, spec.Bundle)
		if err == nil {
			err = object.Verify("the artifact in "+spec.Bundle.Repository, b, spec.Bundle.Digest)
		}
		return b, err
	}
	m, err := patiently(ctx, func() (*configMap, error) {
		return w.Client.CoreV1().ConfigMaps(w.Namespace).Get(ctx, w.Run.Bundle(), metav1.GetOptions{})
	})
	if err != nil {
		return nil, err
	}
	return object.ReadFiles(m, spec.Bundle.Digest)
}

// Write leaves a result where Kubernetes looks for it.
func Write(path string, r *fleet.Result) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// away reports whether the management cluster may answer otherwise to the next worker.
func away(err error) bool {
	status := apierrors.APIStatus(nil)
	changed := (*object.ChangedError)(nil)
	if errors.As(err, &changed) {
		return false
	}
	if !errors.As(err, &status) {
		return errors.As(err, new(*awayError))
	}
	return status.Status().Code >= 500 || apierrors.IsTooManyRequests(err)
}
