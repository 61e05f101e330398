package worker

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/fleet/engine/kubernetes/object"
)

type configMap = corev1.ConfigMap

// How often a paused worker looks whether it may begin, how often one asks an API server
// that does not answer, and for how long.
const (
	lookEvery = 2 * time.Second
	askEvery  = time.Second
	askFor    = 2 * time.Minute
)

// stoppedError says why a worker does not begin.
type stoppedError struct{ why string }

func (e *stoppedError) Error() string { return "not started: " + e.why }

// awayError says that the management cluster does not answer.
type awayError struct{ error }

func (e *awayError) Unwrap() error { return e.error }

// wait returns the worker's Job once the worker may begin. The error is a *stoppedError when
// it never may.
func (w *Worker) wait(ctx context.Context) (*batchv1.Job, error) {
	told := false
	for {
		job, paused, err := w.allowed(ctx)
		if err != nil || !paused {
			return job, err
		}
		if !told {
			w.Tell("the run is paused: waiting for somebody to resume it")
			told = true
		}
		if err := sleep(ctx, lookEvery); err != nil {
			return nil, err
		}
	}
}

// allowed reports whether the worker may begin, or must wait.
func (w *Worker) allowed(ctx context.Context) (job *batchv1.Job, paused bool, err error) {
	m, err := patiently(ctx, func() (*configMap, error) {
		return w.Client.CoreV1().ConfigMaps(w.Namespace).Get(ctx, w.Run.Control(), metav1.GetOptions{})
	})
	if err != nil {
		return nil, false, fmt.Errorf("reading the orders: %w", err)
	}
	o, err := object.ReadOrders(m)
	if err != nil {
		return nil, false, err
	}
	switch {
	case o.Aborted:
		return nil, false, &stoppedError{"the run was aborted"}
	case o.Stop != nil:
		return nil, false, &stoppedError{"the run was stopped: " + o.Stop.Kind}
	case o.Round != w.Round:
		return nil, false, &stoppedError{fmt.Sprintf("round %d of the run is over", w.Round)}
	}
	name := w.Run.Wave(w.Wave, w.Round)
	job, err = patiently(ctx, func() (*batchv1.Job, error) {
		return w.Client.BatchV1().Jobs(w.Namespace).Get(ctx, name, metav1.GetOptions{})
	})
	if err != nil {
		return nil, false, fmt.Errorf("reading the worker's Job: %w", err)
	}
	return job, o.Paused, w.withinBudget(ctx, job)
}

// withinBudget returns a *stoppedError when more clusters of the wave failed than may. The
// driver finds that as well, and more exactly; there may be none just now.
func (w *Worker) withinBudget(ctx context.Context, job *batchv1.Job) error {
	if job.Status.FailedIndexes == nil || *job.Status.FailedIndexes == "" {
		return nil
	}
	root, err := patiently(ctx, func() (*configMap, error) {
		return w.Client.CoreV1().ConfigMaps(w.Namespace).Get(ctx, w.Run.Rollout(), metav1.GetOptions{})
	})
	if err != nil {
		return fmt.Errorf("reading the rollout: %w", err)
	}
	spec, err := object.ReadSpec(root)
	if err != nil {
		return err
	}
	if w.Wave >= len(spec.Rollout.Waves) {
		return fmt.Errorf("the rollout has no wave %d", w.Wave)
	}
	failed, err := object.ParseIndexes(*job.Status.FailedIndexes, 1<<20)
	if err != nil {
		return err
	}
	most := spec.Rollout.Waves[w.Wave].MaxFailures
	if u := spec.Rollout.Limits.Unreachable; u != nil { // those count apart, and the Job does not say which they are
		most += *u
	}
	if len(failed) > most {
		return &stoppedError{fmt.Sprintf("%d clusters of the wave failed, where %d may", len(failed), most)}
	}
	return nil
}

// patiently asks an API server again that does not answer.
func patiently[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	for began := time.Now(); ; {
		v, err := ask()
		if err == nil {
			return v, nil
		}
		if ctx.Err() != nil {
			return v, context.Cause(ctx)
		}
		refused := apierrors.IsNotFound(err) || apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err)
		if refused && time.Since(began) < 10*time.Second && !apierrors.IsNotFound(err) {
			refused = false // an API server that has just begun does not know its roles yet
		}
		if refused {
			return v, err
		}
		if time.Since(began) > askFor {
			return v, &awayError{err}
		}
		if err := sleep(ctx, askEvery); err != nil {
			return v, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
