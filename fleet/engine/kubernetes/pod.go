package kubernetes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes/object"
)

// workers are the pods that worked on a cluster in a round, the oldest first.
type workers []*corev1.Pod

func (w workers) sort() {
	slices.SortFunc(w, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(attempt(a), attempt(b)))
	})
}

// latest is the newest one; nil when there is none.
func (w workers) latest() *corev1.Pod {
	if len(w) == 0 {
		return nil
	}
	return w[len(w)-1]
}

// began is when the first of them began; zero when none did.
func (w workers) began() time.Time {
	for _, p := range w {
		if t := startOf(p); !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// find is the newest one that ended with one of some exit codes, or with any.
func (w workers) find(codes ...int) *corev1.Pod {
	for _, p := range slices.Backward(w) {
		if end := endOf(p); end != nil && (len(codes) == 0 || slices.Contains(codes, int(end.ExitCode))) {
			return p
		}
	}
	return nil
}

// attempt counts from 1 which of a cluster's workers a pod is.
func attempt(p *corev1.Pod) int {
	failed, _ := strconv.Atoi(p.Annotations[object.AnnotationFailed])
	ignored, _ := strconv.Atoi(p.Annotations[object.AnnotationIgnored])
	return 1 + failed + ignored
}

func container(p *corev1.Pod) *corev1.ContainerState {
	for i := range p.Status.ContainerStatuses {
		if s := &p.Status.ContainerStatuses[i]; s.Name == object.Container {
			return &s.State
		}
	}
	return &corev1.ContainerState{}
}

// startOf is when a pod's process began; zero when it did not.
func startOf(p *corev1.Pod) time.Time {
	switch s := container(p); {
	case s.Running != nil:
		return s.Running.StartedAt.Time
	case s.Terminated != nil:
		return s.Terminated.StartedAt.Time
	}
	return time.Time{}
}

// endOf is how a pod's process ended; nil while it did not.
func endOf(p *corev1.Pod) *corev1.ContainerStateTerminated { return container(p).Terminated }

// gone reports whether a pod runs no more.
func gone(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || endOf(p) != nil
}

// resultOf is what a worker wrote at its end; nil when it did not.
func resultOf(p *corev1.Pod) *fleet.Result {
	if p == nil || endOf(p) == nil {
		return nil
	}
	var r fleet.Result
	if json.Unmarshal([]byte(endOf(p).Message), &r) != nil || r.State == "" {
		return nil
	}
	return &r
}

// lost is the result of a cluster whose worker left none.
func lost(p *corev1.Pod) *fleet.Result {
	text := "its worker is gone, and left no result"
	r := &fleet.Result{State: fleet.Failed}
	if p != nil {
		text = "its worker left no result"
		if p.Status.Reason != "" {
			text += ": " + p.Status.Reason
		}
		if end := endOf(p); end != nil {
			text = fmt.Sprintf("its worker ended with exit code %d (%s), and left no result", end.ExitCode, end.Reason)
			r.Started, r.Ended = end.StartedAt.Time, end.FinishedAt.Time
		}
		r.Hint = fmt.Sprintf("see the log of pod %s/%s, and its events", p.Namespace, p.Name)
	}
	r.Error, r.Cause = text, fleet.NewCause(fleet.Lost, "", text)
	return r
}

// endTime is when a pod's process ended. Its own clock is finer than Kubernetes' times.
func endTime(p *corev1.Pod) time.Time {
	if p == nil || endOf(p) == nil {
		return time.Time{}
	}
	at := endOf(p).FinishedAt.Time
	if r := resultOf(p); r != nil && r.Ended.Sub(at).Abs() < 3*time.Second {
		return r.Ended
	}
	return at
}

// suspended reports whether a Job starts no pods.
func suspended(j *batchv1.Job) bool { return j.Spec.Suspend != nil && *j.Spec.Suspend }

// ended reports whether a Job is over.
func ended(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed)
	})
}

// job is a wave's Job as it was read: which cluster is at which of its indexes, and what has
// become of these.
type job struct {
	*batchv1.Job
	clusters          object.Indexes
	completed, failed object.Indexes
}

// readJob reads a Job of a wave of so many clusters.
func readJob(j *batchv1.Job, size int) (*job, error) {
	all := &job{Job: j}
	var err error
	if all.clusters, err = object.ParseIndexes(j.Annotations[object.AnnotationClusters], size); err == nil {
		all.completed, err = object.ParseIndexes(j.Status.CompletedIndexes, len(all.clusters))
	}
	if f := j.Status.FailedIndexes; err == nil && f != nil {
		all.failed, err = object.ParseIndexes(*f, len(all.clusters))
	}
	if err != nil {
		return nil, fmt.Errorf("reading Job %s/%s: %w", j.Namespace, j.Name, err)
	}
	return all, nil
}

// begun reports whether the Job was let go.
func (j *job) begun() bool {
	return !suspended(j.Job) || j.Status.StartTime != nil || len(j.completed) > 0 || len(j.failed) > 0
}

// indexOf is the Job's index of a pod; -1 when it has none.
func indexOf(p *corev1.Pod) int {
	k, err := strconv.Atoi(p.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil {
		return -1
	}
	return k
}
