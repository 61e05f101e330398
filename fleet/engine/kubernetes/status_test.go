package kubernetes

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes/object"
)

var dawn = time.Date(2026, 11, 25, 2, 0, 0, 0, time.UTC)

// worker is a pod of an attempt; code is -1 while it runs, and -2 before it began.
func worker(number, code int, message string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "pod-" + strconv.Itoa(number), CreationTimestamp: metav1.NewTime(dawn.Add(time.Duration(number) * time.Minute)),
		Annotations: map[string]string{object.AnnotationIgnored: strconv.Itoa(number - 1)},
	}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	began := metav1.NewTime(p.CreationTimestamp.Add(time.Second))
	s := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}}
	switch {
	case code == -2:
		s = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	case code >= 0:
		s = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code), Message: message, StartedAt: began, FinishedAt: metav1.NewTime(began.Add(time.Second))}} //nolint:gosec // small
		p.Status.Phase = corev1.PodFailed
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: object.Container, State: s}}
	return p
}

// How a cluster stands by what its Job and its workers say.
func TestLook(t *testing.T) {
	const (
		unreachable = `{"state":"failed","cause":{"class":"unreachable","text":"x"},"error":"x"}`
		cancelled   = `{"state":"cancelled"}`
		notStarted  = `{"state":"not_started"}`
	)
	failed := "0"
	for _, c := range []struct {
		name      string
		status    batchv1.JobStatus
		suspended bool
		active    bool
		workers   workers
		want      fleet.State
		attempt   int
	}{
		{name: "nothing", want: fleet.Pending},
		{name: "not begun", workers: workers{worker(1, -2, "")}, want: fleet.Pending},
		{name: "at work", workers: workers{worker(1, -1, "")}, want: fleet.Running, attempt: 1},
		{name: "evicted", workers: workers{worker(1, 143, cancelled)}, want: fleet.Running, attempt: 1},
		{name: "its successor is being made", workers: workers{worker(1, 143, cancelled), worker(2, -2, "")}, want: fleet.Running},
		{name: "its successor is at work", workers: workers{worker(1, 137, ""), worker(2, -1, "")}, want: fleet.Running, attempt: 2},
		{name: "the first is gone from the API", workers: workers{worker(3, -1, "")}, want: fleet.Running, attempt: 3},
		{name: "done, and the Job does not say so yet", workers: workers{worker(1, 0, `{"state":"unchanged"}`)}, want: fleet.Unchanged, attempt: 1},
		{name: "done", status: batchv1.JobStatus{CompletedIndexes: "0"}, workers: workers{worker(1, 0, `{"state":"succeeded"}`)}, want: fleet.Succeeded, attempt: 1},
		{name: "done without a word", status: batchv1.JobStatus{CompletedIndexes: "0"}, want: fleet.Succeeded},
		{name: "failed", workers: workers{worker(1, 1, `{"state":"failed","error":"x"}`)}, want: fleet.Failed, attempt: 1},
		{name: "out of reach, once", workers: workers{worker(1, 75, unreachable)}, want: fleet.Running, attempt: 1},
		{name: "out of reach", status: batchv1.JobStatus{FailedIndexes: &failed}, workers: workers{worker(3, 75, unreachable)}, want: fleet.Failed, attempt: 3},
		{name: "killed too often", status: batchv1.JobStatus{FailedIndexes: &failed}, workers: workers{worker(3, 137, "")}, want: fleet.Failed, attempt: 3},
		{name: "not started", status: batchv1.JobStatus{FailedIndexes: &failed}, workers: workers{worker(1, 20, notStarted)}, want: fleet.NotStarted},
		{name: "being stopped", suspended: true, workers: workers{worker(1, -1, "")}, want: fleet.Running, attempt: 1},
		{name: "stopped", suspended: true, workers: workers{worker(1, 143, cancelled)}, want: fleet.Cancelled, attempt: 1},
		{name: "stopped, and its pod is gone", suspended: true, active: true, want: fleet.Cancelled},
		{name: "stopped before", suspended: true, want: fleet.Pending},
		{name: "stopped between attempts", suspended: true, workers: workers{worker(1, 75, unreachable)}, want: fleet.Failed, attempt: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, err := readJob(&batchv1.Job{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{object.AnnotationClusters: "0"}},
				Spec:       batchv1.JobSpec{Suspend: &c.suspended}, Status: c.status,
			}, 1)
			require.NoError(t, err)
			c.workers.sort()
			s := look(j, 0, c.workers, c.active)
			require.Equal(t, c.want, s.state)
			require.Equal(t, c.attempt, s.attempt)
		})
	}
}

// A wave that soaks does so from its end on, whenever that is seen, and whoever comes later
// tells the same.
func TestFoldAgain(t *testing.T) {
	r := &fleet.Rollout{
		Waves:    []fleet.WaveInfo{{Name: "a", Parallel: 1, Clusters: 1, SoakSeconds: 60}, {Name: "b", Parallel: 1, Clusters: 1}},
		Clusters: []fleet.Cluster{{Name: "one", Wave: "a"}, {Name: "two", Wave: "b"}},
	}
	r.Seal()
	spec := &object.Spec{Run: "20261122-161030-3a12cd", Rollout: r, Began: dawn}
	end := dawn.Add(62 * time.Second) // of the first worker
	at := func(now time.Time) *view {
		ready := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{object.AnnotationClusters: "0"}}}
		first, second := ready.DeepCopy(), ready.DeepCopy()
		started := metav1.NewTime(dawn)
		first.Status = batchv1.JobStatus{CompletedIndexes: "0", StartTime: &started}
		second.Spec.Suspend = new(true)
		a, err := readJob(first, 1)
		require.NoError(t, err)
		b, err := readJob(second, 1)
		require.NoError(t, err)
		return &view{now: now, orders: object.Orders{Round: 1}, jobs: map[int]*job{0: a, 1: b}, pods: map[int]map[int]workers{0: {0: {worker(1, 0, `{"state":"succeeded"}`)}}}}
	}
	see := func(times ...time.Time) ([]fleet.Event, fleet.Decision) {
		var events []fleet.Event
		var d fleet.Decision
		f := newFold(spec, &fleet.Execution{}, func(e fleet.Event) { events = append(events, e) })
		for _, now := range times {
			v := at(now)
			f.see(v)
			d = f.decide(v)
		}
		return events, d
	}
	live, d := see(end, end.Add(30*time.Second))
	require.Equal(t, end.Add(60*time.Second), d.Again)
	later, d := see(end.Add(45 * time.Second))
	require.Equal(t, end.Add(60*time.Second), d.Again)
	require.Equal(t, live, later)
	_, d = see(end.Add(2 * time.Minute))
	require.Equal(t, []string{"two"}, d.Start)
}
