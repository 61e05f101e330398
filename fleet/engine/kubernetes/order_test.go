package kubernetes_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/engine/kubernetes"
)

// entered tells an event of a cluster that enters a state.
func entered(name string, s fleet.State) func(fleet.Event) bool {
	return func(e fleet.Event) bool { return e.Type == fleet.TypeCluster && e.Cluster == name && e.State == s }
}

// waits tells that a cluster is at the plan's last step.
func waits(name string) func(fleet.Event) bool {
	return func(e fleet.Event) bool { return e.Cluster == name && e.Progress != nil && e.Progress.Step == "go" }
}

func waveIn(name string, s fleet.WaveState) func(fleet.Event) bool {
	return func(e fleet.Event) bool { return e.Type == fleet.TypeWave && e.Wave == name && e.WaveState == s }
}

// TestPauseAndApprove pauses a run while a cluster is at work: that ends, the next worker
// waits until somebody resumes, and the next wave until somebody approves it.
func TestPauseAndApprove(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, heldPlan)
	run := s.create(s.rollout(fleet.WaveInfo{Name: "one", Parallel: 1, Clusters: 2}, fleet.WaveInfo{Name: "two", Parallel: 1, Clusters: 1, Approve: true}))
	d := s.drive(run)
	d.until(time.Minute, "c00 is at its wait", waits("c00"))
	require.NoError(t, run.Pause(t.Context(), "me@here"))
	s.release("c00", "c01", "c02")
	d.until(time.Minute, "c00 ends", entered("c00", fleet.Succeeded))
	time.Sleep(5 * time.Second)
	_, err := s.client.CoreV1().ConfigMaps(s.namespaceOf("c01")).Get(t.Context(), "one", metav1.GetOptions{})
	require.Error(t, err, "a paused run began another cluster")
	resumed, err := run.Resume(t.Context(), "me@here")
	require.NoError(t, err)
	require.True(t, resumed.Paused)
	d.until(time.Minute, "wave two waits", waveIn("two", fleet.WaveApproval))
	s.deployed("c01")
	// Another driver waits as well.
	other := s.drive(run)
	other.until(time.Minute, "wave two waits", waveIn("two", fleet.WaveApproval))
	wave, err := run.Approve(t.Context(), "", "me@here")
	require.NoError(t, err)
	require.Equal(t, "two", wave)
	require.Equal(t, fleet.Succeeded, d.end(time.Minute).State)
	require.Equal(t, fleet.Succeeded, other.end(time.Minute).State)
	s.deployed("c02")
	require.ErrorAs(t, run.Pause(t.Context(), "me@here"), new(*kubernetes.OrderError))
	_, err = run.Resume(t.Context(), "me@here")
	require.ErrorAs(t, err, new(*kubernetes.OrderError))
}

// TestAbortAndResume aborts a run: what is at work ends, and nothing else begins. The next
// round does exactly what is left.
func TestAbortAndResume(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4, heldPlan)
	run := s.create(s.rollout(fleet.WaveInfo{Name: "one", Parallel: 1, Clusters: 3}, fleet.WaveInfo{Name: "two", Parallel: 1, Clusters: 1}))
	d := s.drive(run)
	d.until(time.Minute, "c00 is at its wait", waits("c00"))
	require.NoError(t, run.Abort(t.Context(), false, "me@here"))
	time.Sleep(3 * time.Second)
	s.release(s.names...)
	x := d.end(2 * time.Minute)
	require.Equal(t, fleet.Cancelled, x.State)
	require.Equal(t, fleet.StopAborted, x.Stop.Kind)
	require.Equal(t, map[fleet.State]int{fleet.Succeeded: 1, fleet.NotStarted: 3}, x.Counts())
	later := s.drive(run).end(time.Minute)
	require.Equal(t, x.Counts(), later.Counts())
	require.Equal(t, fleet.WaveFailed, later.Wave("one").State)
	require.Equal(t, fleet.WaveNotStarted, later.Wave("two").State)

	resumed, err := run.Resume(t.Context(), "me@here")
	require.NoError(t, err)
	require.Equal(t, kubernetes.Resumed{Round: 2, Clusters: 3}, resumed)
	again := s.drive(run)
	x = again.end(2 * time.Minute)
	require.Equal(t, fleet.Succeeded, x.State)
	require.Equal(t, 2, x.Round)
	require.Equal(t, map[fleet.State]int{fleet.Succeeded: 4}, x.Counts())
	require.NotContains(t, again.inner, "c00", "what was done is done again")
	for _, name := range s.names {
		s.deployed(name)
	}
}

// TestAbortNow stops a cluster at work, which a resumed run then goes on with.
func TestAbortNow(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2, heldPlan)
	run := s.create(s.rollout(fleet.WaveInfo{Name: "one", Parallel: 1, Clusters: 2}))
	d := s.drive(run)
	d.until(time.Minute, "c00 is at its wait", waits("c00"))
	require.NoError(t, run.Abort(t.Context(), true, "me@here"))
	x := d.end(time.Minute)
	require.Equal(t, fleet.Cancelled, x.State)
	require.Equal(t, map[fleet.State]int{fleet.Cancelled: 1, fleet.NotStarted: 1}, x.Counts())
	require.Equal(t, x.Counts(), s.drive(run).end(time.Minute).Counts())
	s.release(s.names...)
	_, err := run.Resume(t.Context(), "me@here")
	require.NoError(t, err)
	require.Equal(t, fleet.Succeeded, s.drive(run).end(2*time.Minute).State)
	s.deployed("c00")
	s.deployed("c01")
}

// TestLimit lets more clusters fail than may: exactly that stops the run, and what is at work
// is not killed.
func TestLimit(t *testing.T) {
	t.Parallel()
	s := newSite(t, 5, heldPlan)
	r := s.rollout(fleet.WaveInfo{Name: "one", Parallel: 3, Clusters: 5, MaxFailures: 1})
	for i := range 2 { // these refuse what is applied
		r.Clusters[i].Vars["namespace"] = "no-such-namespace"
	}
	run := s.create(r)
	d := s.drive(run)
	d.until(time.Minute, "the run is stopped", func(e fleet.Event) bool { return e.Type == fleet.TypeStop })
	time.Sleep(time.Second)
	s.release("c02", "c03", "c04")
	x := d.end(2 * time.Minute)
	require.Equal(t, fleet.Failed, x.State)
	require.Equal(t, &fleet.Stop{Kind: fleet.StopFailures, Wave: "one", Failed: 2, Allowed: 1}, x.Stop)
	require.Equal(t, 2, x.Counts()[fleet.Failed])
	require.GreaterOrEqual(t, x.Counts()[fleet.Succeeded], 1)
	require.Len(t, x.Failures(), 1, "one cause")
	for _, c := range x.Clusters {
		require.Equal(t, 1, max(c.Attempt, 1), "%s was begun again", c.Name)
	}
}

// TestQuota runs where there is room for one worker at a time: it is told, and all is done.
func TestQuota(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, quickPlan)
	run := s.create(s.rollout(fleet.WaveInfo{Name: "one", Parallel: 3, Clusters: 3}))
	pods := s.podsNow()
	_, err := s.client.CoreV1().ResourceQuotas(s.ns).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: quota(pods)},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	time.Sleep(2 * time.Second)
	d := s.drive(run)
	d.until(time.Minute, "the quota is told", func(e fleet.Event) bool { return e.Type == fleet.TypeMessage && e.Error != "" && e.Hint != "" })
	require.NoError(t, s.client.CoreV1().ResourceQuotas(s.ns).Delete(t.Context(), "few", metav1.DeleteOptions{}))
	require.Equal(t, fleet.Succeeded, d.end(3*time.Minute).State)
}

// TestChangedBundle puts other files in the place of the plan's: no worker runs them.
func TestChangedBundle(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, quickPlan)
	run := s.create(s.rollout(fleet.WaveInfo{Name: "one", Parallel: 1, Clusters: 1}))
	maps := s.client.CoreV1().ConfigMaps(s.ns)
	was, err := maps.Get(t.Context(), run.Run.Bundle(), metav1.GetOptions{})
	require.NoError(t, err)
	key := "bundle.tar.gz"
	was.BinaryData[key] = slices.Concat(was.BinaryData[key], []byte("x"))
	_, err = maps.Update(t.Context(), was, metav1.UpdateOptions{})
	require.Error(t, err, "it may be changed")
	require.NoError(t, maps.Delete(t.Context(), was.Name, metav1.DeleteOptions{}))
	was.ResourceVersion, was.UID = "", ""
	_, err = maps.Create(t.Context(), was, metav1.CreateOptions{})
	require.NoError(t, err)
	x := s.drive(run).end(time.Minute)
	require.Equal(t, fleet.Failed, x.State)
	require.Contains(t, x.Cluster("c00").Result.Error, "was changed since the run began")
	_, err = s.client.CoreV1().ConfigMaps(s.namespaceOf("c00")).Get(t.Context(), "one", metav1.GetOptions{})
	require.Error(t, err)
}

// TestDriverPod leaves the run to a driver in the cluster.
func TestDriverPod(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2, quickPlan)
	run := s.create(s.rollout(fleet.WaveInfo{Name: "one", Parallel: 1, Clusters: 1}, fleet.WaveInfo{Name: "two", Parallel: 1, Clusters: 1}))
	require.NoError(t, run.MakeDriver(t.Context()))
	require.NoError(t, run.MakeDriver(t.Context()))
	require.Eventually(t, func() bool {
		saved, err := run.Saved(t.Context())
		return err == nil && saved.Ended == 1
	}, 2*time.Minute, 200*time.Millisecond, "the driver ends nothing")
	require.Eventually(t, func() bool {
		job, err := s.client.BatchV1().Jobs(s.ns).Get(t.Context(), run.Run.Driver(1), metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobComplete })
	}, time.Minute, 200*time.Millisecond, "the driver goes on")
	require.Equal(t, fleet.Succeeded, s.drive(run).end(time.Minute).State)
	require.NoError(t, run.Delete(context.Background()))
	require.Eventually(t, func() bool {
		jobs, err := s.client.BatchV1().Jobs(s.ns).List(t.Context(), selecting(run))
		return err == nil && len(jobs.Items) == 0
	}, time.Minute, 200*time.Millisecond, "Jobs are left of a run that was deleted")
}
