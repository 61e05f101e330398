package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/internal/labtest/thousand"
)

// fleetBed is a fleet file, whose commands run as processes of their own.
type fleetBed struct {
	*thousand.Fleet
	t    *testing.T
	lab  *labtest.Lab
	file string
}

func newFleetBed(t *testing.T, clusters int, more string) *fleetBed {
	t.Helper()
	lab := labtest.ControlPlane(t)
	f := thousand.New(t, lab, clusters)
	return &fleetBed{f, t, lab, f.WriteFleet(t, t.TempDir(), more)}
}

// process is a command of the fleet that was started.
type process struct {
	*exec.Cmd
	out bytes.Buffer
}

func (b *fleetBed) start(args ...string) *process {
	b.t.Helper()
	p := &process{Cmd: command(b.t, append([]string{"fleet"}, args...)...)}
	p.Dir, p.Env = filepath.Dir(b.file), append(os.Environ(), "KUBECONFIG="+b.lab.Kubeconfig)
	p.Stdout, p.Stderr = &p.out, &p.out
	require.NoError(b.t, p.Start())
	return p
}

// code waits for the end of a process, and returns its exit code.
func (p *process) code(t *testing.T) int {
	t.Helper()
	err := p.Wait()
	t.Logf("%s\n%s", strings.Join(p.Args, " "), &p.out)
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		return ended.ExitCode()
	}
	require.NoError(t, err)
	return 0
}

func (b *fleetBed) does(want int, args ...string) string {
	b.t.Helper()
	p := b.start(args...)
	require.Equal(b.t, want, p.code(b.t))
	return p.out.String()
}

// status is how the newest run stands; nil when there is none yet.
func (b *fleetBed) status() *fleetStanding {
	b.t.Helper()
	cmd := command(b.t, "fleet", "status", "-o", "json")
	cmd.Dir = filepath.Dir(b.file)
	out, err := cmd.Output()
	if code := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &code) || code.ExitCode() != 1) {
		return nil
	}
	var s fleetStanding
	require.NoError(b.t, json.Unmarshal(out, &s), "%s", out)
	return &s
}

// until waits until the newest run stands as it should.
func (b *fleetBed) until(what string, is func(*fleetStanding) bool) *fleetStanding {
	b.t.Helper()
	var s *fleetStanding
	require.Eventually(b.t, func() bool { s = b.status(); return s != nil && is(s) }, 2*time.Minute, 200*time.Millisecond, what)
	return s
}

// whole looks whether each cluster has what the plan makes, once.
func (b *fleetBed) whole() {
	b.t.Helper()
	core := b.lab.Clientset(b.t).CoreV1()
	for _, c := range b.Clusters {
		for _, name := range []string{"of-the-chart", "applied", "judged"} {
			_, err := core.ConfigMaps(c.Namespace).Get(b.t.Context(), name, metav1.GetOptions{})
			require.NoError(b.t, err)
		}
		releases, err := core.Secrets(c.Namespace).List(b.t.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
		require.NoError(b.t, err)
		deployed := 0
		for _, r := range releases.Items {
			require.NotContains(b.t, r.Labels["status"], "pending")
			if r.Labels["status"] == "deployed" {
				deployed++
			}
		}
		require.Equal(b.t, 1, deployed, c.Name)
		leases, err := b.lab.Clientset(b.t).CoordinationV1().Leases(c.Namespace).List(b.t.Context(), metav1.ListOptions{})
		require.NoError(b.t, err)
		require.Len(b.t, leases.Items, 1)
		require.Empty(b.t, *leases.Items[0].Spec.HolderIdentity, "the lock of %s is given back", c.Name)
	}
}

// A run takes orders from other processes: it is paused, goes on, waits for approval, and
// tells another run of the fleet that it is at work.
func TestFleetTakesOrders(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, 12, "waves: [{name: canary, select: cluster.name < 'c0003'}, {name: rest, parallel: 3, approve: true}]")
	gate := make(chan struct{})
	for _, c := range b.Clusters[2:] {
		c.Script(thousand.Gate("/configmaps/judged", gate))
	}
	run := b.start("run", "--progress", "plain")
	b.until("the wave waits", func(s *fleetStanding) bool { return s.Waves[1].State == fleet.WaveApproval })
	require.Contains(t, b.does(exitLocked, "run"), "fleet thousand is being run by another: run ")
	b.does(exitUsage, "approve", "nobody")
	b.does(exitDone, "approve", "rest")
	b.until("three are at work", func(s *fleetStanding) bool { return s.Counts[fleet.Running] == 3 })
	b.does(exitDone, "pause")
	b.until("it is paused", func(s *fleetStanding) bool { return s.Control.Paused })
	close(gate)
	s := b.until("what was at work is done", func(s *fleetStanding) bool { return s.Counts[fleet.Running] == 0 })
	require.Equal(t, map[fleet.State]int{fleet.Succeeded: 5, fleet.Pending: 7}, s.Counts)
	require.True(t, s.Active)
	b.does(exitDone, "resume")

	require.Equal(t, exitDone, run.code(t))
	b.whole()
	require.Contains(t, b.does(exitUsage, "resume"), "no unfinished run")
	run = b.start("run", "--progress", "quiet")
	b.until("the wave waits", func(s *fleetStanding) bool { return s.State == fleet.Running && s.Waves[1].State == fleet.WaveApproval })
	b.does(exitDone, "approve", "rest")
	require.Equal(t, exitDone, run.code(t))
	require.Equal(t, 12, b.status().Counts[fleet.Unchanged])
}

// What a killed process left behind is done by who resumes its run.
func TestFleetIsKilled(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, 40, "waves: [{name: all, parallel: 6}]")
	gate := make(chan struct{})
	for _, c := range b.Clusters[10:13] {
		c.Script(thousand.Gate("/configmaps/judged", gate))
	}
	for _, c := range b.Clusters[13:20] { // Helm's release is pending
		c.Script(thousand.Gate("/secrets/", gate))
	}
	run := b.start("run", "--progress", "plain")
	b.until("six are at work", func(s *fleetStanding) bool { return s.Counts[fleet.Succeeded] == 10 && s.Counts[fleet.Running] == 6 })
	require.NoError(t, run.Process.Kill())
	require.Equal(t, -1, run.code(t))
	require.Contains(t, b.does(exitDone, "status"), "unfinished, and nobody runs it")
	close(gate)

	plan := filepath.Join(filepath.Dir(b.file), "plan.yaml")
	text, err := os.ReadFile(plan)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(plan, append(text, "# changed\n"...), 0o600))
	require.Contains(t, b.does(exitUsage, "resume"), "the plan's files have changed since run ")
	require.NoError(t, os.WriteFile(plan, text, 0o600))
	require.Contains(t, b.does(exitUsage, "resume", "--set", "hold=1m"), "was given other values by --set")

	b.does(exitDone, "resume", "--progress", "plain")

	b.whole()
	s := b.status()
	require.Equal(t, map[fleet.State]int{fleet.Succeeded: 40}, s.Counts)
	again := 0
	for _, c := range s.Clusters {
		again += c.Attempt - 1
	}
	require.Equal(t, 6, again, "only what was at work is begun again")
}

// An aborted run ends when what is at work has ended; at once with --now. ^C stops it as well.
func TestFleetIsStopped(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, 12, "waves: [{name: all, parallel: 3}]")
	gate := make(chan struct{})
	for _, c := range b.Clusters {
		c.Script(thousand.Gate("/configmaps/judged", gate))
	}
	atWork := func() {
		b.until("three are at work", func(s *fleetStanding) bool { return s.Counts[fleet.Running] == 3 && s.Active })
	}
	run := b.start("run", "--progress", "plain")
	atWork()
	b.does(exitDone, "abort", "--now")
	require.Equal(t, exitFailed, run.code(t))
	require.Equal(t, map[fleet.State]int{fleet.Cancelled: 3, fleet.NotStarted: 9}, b.status().Counts)

	run = b.start("resume", "--progress", "plain")
	atWork()
	require.NoError(t, run.Process.Signal(syscall.SIGINT))
	require.Equal(t, 130, run.code(t))
	require.Equal(t, map[fleet.State]int{fleet.Cancelled: 3, fleet.NotStarted: 9}, b.status().Counts)

	run = b.start("resume", "--progress", "plain")
	atWork()
	b.does(exitDone, "abort")
	b.until("it is aborted", func(s *fleetStanding) bool { return s.Control.Aborted })
	close(gate)
	require.Equal(t, exitFailed, run.code(t))
	require.Equal(t, map[fleet.State]int{fleet.Succeeded: 3, fleet.NotStarted: 9}, b.status().Counts)

	b.does(exitDone, "resume", "--progress", "plain")
	b.whole()
}

// Nothing new starts once more clusters have failed of one cause than the budget allows.
func TestFleetStaysInItsBudget(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, 20, "budget: {same_cause: 2, unreachable: 3}\nwaves: [{name: all, parallel: 1, max_failures: 100%}]")
	for _, i := range []int{2, 4} {
		b.Clusters[i].Script(thousand.Hang)
	}
	for _, i := range []int{5, 7, 9} {
		b.Clusters[i].Script(thousand.Forbid("/configmaps/applied"))
	}
	out := b.does(exitFailed, "run", "--progress", "plain")
	s := b.status()
	require.Equal(t, map[fleet.State]int{fleet.Succeeded: 5, fleet.Failed: 5, fleet.NotStarted: 10}, s.Counts, out)
	require.Equal(t, fleet.StopCause, s.Stop.Kind)
	require.Len(t, s.Failures, 2)
	require.Equal(t, []string{"c0006", "c0008", "c0010"}, s.Failures[0].Clusters)
	require.Equal(t, fleet.Forbidden, s.Failures[0].Cause.Class)
	require.Equal(t, fleet.Unreachable, s.Failures[1].Cause.Class)
	for _, c := range b.Clusters {
		c.Mend()
	}
	b.does(exitDone, "resume", "--progress", "plain")
	b.whole()
}
