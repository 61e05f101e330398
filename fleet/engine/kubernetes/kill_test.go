//go:build linux

package kubernetes_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/internal/labtest"
)

// kills is how many workers, and how many drivers, are killed: KPLAN_FLEET_KILLS, or few.
func kills(t *testing.T, few int) int {
	t.Helper()
	text := os.Getenv("KPLAN_FLEET_KILLS")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// seeded is chance that can be had again by KPLAN_SEED.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("KPLAN_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("KPLAN_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // of a test
}

// TestKilledWorkers ends each worker once at a moment that a seed gives, by kill -9 or as an
// eviction does: all clusters end deployed, each by its second worker.
func TestKilledWorkers(t *testing.T) {
	t.Parallel()
	n, chance := kills(t, 6), seeded(t)
	s := newSite(t, n, heldPlan)
	run := s.create(s.rollout(fleet.WaveInfo{Name: "all", Parallel: 6, Clusters: n}))
	began := time.Now()
	d := s.drive(run)
	var group sync.WaitGroup
	defer group.Wait()
	for i, name := range s.names {
		after, hard := time.Duration(chance.Int64N(int64(2500*time.Millisecond))), i%2 == 0 && os.Getenv(labtest.KubeconfigEnv) != "remote"
		group.Go(func() {
			pod := s.working(i)
			if pod == nil {
				return
			}
			time.Sleep(after)
			if hard {
				kill(pod.Name)
			} else if err := s.client.CoreV1().Pods(s.ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Errorf("evicting %s: %v", pod.Name, err)
			}
			s.ends(pod.Name) // else it could do all that is left before it hears of its end
			s.release(name)
		})
	}
	x := d.end(10 * time.Minute)
	t.Logf("%d workers, each ended once: %s", n, time.Since(began).Round(time.Second))
	require.Equal(t, fleet.Succeeded, x.State)
	for _, c := range x.Clusters {
		s.deployed(c.Name)
		require.True(t, c.State.Good(), c.Name) // unchanged when the first worker had done all
		require.Equal(t, 2, c.Attempt, c.Name)
	}
}

// working waits for the first worker of a cluster to begin.
func (s *site) working(index int) *corev1.Pod {
	for end := time.Now().Add(8 * time.Minute); time.Now().Before(end) && s.Context().Err() == nil; time.Sleep(50 * time.Millisecond) {
		pods, err := s.client.CoreV1().Pods(s.ns).List(s.Context(), metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-completion-index=" + strconv.Itoa(index)})
		if err != nil {
			continue
		}
		for _, p := range pods.Items {
			if len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Running != nil {
				return &p
			}
		}
	}
	s.Errorf("the worker of index %d does not begin", index)
	return nil
}

// ends waits until a pod's process has ended.
func (s *site) ends(pod string) {
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end) && s.Context().Err() == nil; time.Sleep(100 * time.Millisecond) {
		p, err := s.client.CoreV1().Pods(s.ns).Get(s.Context(), pod, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Terminated != nil {
			return
		}
	}
	s.Errorf("pod %s does not end", pod)
}

// kill kills the process of a pod of the lab, which is one of this machine.
func kill(pod string) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		env, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(env, []byte("KPLAN_POD="+pod+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// TestKilledDrivers kills drivers at moments that a seed gives, one after another: the run
// goes on with the next one, nothing is done twice, and nothing comes before its turn.
func TestKilledDrivers(t *testing.T) {
	t.Parallel()
	n, chance := kills(t, 6), seeded(t)
	s := newSite(t, 4, quickPlan)
	var waves []fleet.WaveInfo
	for _, name := range []string{"a", "b", "c", "d"} {
		waves = append(waves, fleet.WaveInfo{Name: name, Parallel: 1, Clusters: 1, SoakSeconds: 1})
	}
	run := s.create(s.rollout(waves...))
	for i := 0; ; i++ {
		cmd := exec.CommandContext(t.Context(), s.kplan, "fleet", "driver", "--run", string(run.Run), "--kubeconfig", s.lab.Kubeconfig)
		cmd.Env = append(os.Environ(), "KPLAN_NAMESPACE="+s.ns)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(t, cmd.Start())
		if i < n {
			time.Sleep(time.Duration(chance.Int64N(int64(1500 * time.Millisecond))))
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			continue
		}
		require.NoError(t, cmd.Wait(), out.String())
		break
	}
	x := s.drive(run).end(time.Minute)
	require.Equal(t, fleet.Succeeded, x.State)
	for i, c := range x.Clusters {
		s.deployed(c.Name)
		require.Equal(t, 1, c.Attempt, c.Name)
		if i > 0 {
			before := x.Clusters[i-1].Result.Ended.Add(time.Second)
			require.False(t, c.Result.Started.Before(before), "%s began at %s, and the wave before soaked until %s", c.Name, c.Result.Started, before)
		}
	}
}
