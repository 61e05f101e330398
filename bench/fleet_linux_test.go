package bench

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/internal/labtest/thousand"
)

var (
	fleetSize     = flag.Int("fleet", 1000, "how `many` clusters BenchmarkFleet has")
	fleetParallel = flag.Int("fleet-parallel", 20, "how `many` of them run at once")
)

// refusedCall is what an API server says of a webhook that nobody serves yet.
const refusedCall = `Internal error occurred: failed calling webhook "vx.example.io": failed to call webhook: Post "https://x-webhook.ns.svc:443/validate-x?timeout=2s": dial tcp 10.96.69.10:443: connect: connection refused`

// BenchmarkFleet runs a plan with a helm step, an apply, one whose request is held for a
// second, and a wait on a thousand logical clusters: with all of them well, and with one of
// twenty faulty. The bar is 279 s (Flux' time for a thousand releases on 16 cores), 1 MiB for a
// cluster that waits and 15 MiB for one that runs.
func BenchmarkFleet(b *testing.B) {
	lab := labtest.ControlPlane(b)
	kplan := labtest.Build(b, "github.com/kplan-dev/kplan/cmd/kplan")
	for name, faulty := range map[string]int{"well": 0, "faulty": 20} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				f := thousand.New(b, lab, *fleetSize)
				failing := 0
				for i, c := range f.Clusters {
					if faulty > 0 && i >= 10 && i%faulty == 0 {
						failing++
						breakCluster(c, failing)
						continue
					}
					c.Script(thousand.Webhook("/configmaps/judged", refusedCall, time.Second))
				}
				file := f.WriteFleet(b, b.TempDir(), fmt.Sprintf("waves: [{name: canary, select: cluster.name < 'c0011'}, {name: rest, parallel: %d, max_failures: 100%%}]", *fleetParallel))
				b.StartTimer()
				counts := measureFleet(b, lab, kplan, file)
				b.StopTimer()
				require.Equal(b, failing, counts["failed"])
				require.Equal(b, *fleetSize-failing, counts["succeeded"])
				b.StartTimer()
			}
		})
	}
	b.Run("memory", func(b *testing.B) {
		f := thousand.New(b, lab, *fleetSize)
		for b.Loop() {
			one := memoryOfFleet(b, lab, kplan, f, 1, 1)
			waiting := memoryOfFleet(b, lab, kplan, f, *fleetSize, 1)
			running := memoryOfFleet(b, lab, kplan, f, 50, 50)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(one)/1024, "one-MiB")
			b.ReportMetric(float64(waiting-one)/float64(*fleetSize-1), "waiting-KiB")
			b.ReportMetric(float64(running-one)/49/1024, "running-MiB")
		}
	})
}

// breakCluster gives a cluster one of the faults that end its run.
func breakCluster(c *thousand.Cluster, n int) {
	switch n % 5 {
	case 0:
		c.Refuse()
	case 1:
		c.Pretend()
	case 2:
		c.Script(thousand.Unauthorized)
	case 3:
		c.Script(thousand.Forbid("/configmaps/applied"))
	case 4:
		c.Script(thousand.Hang)
	}
}

// measureFleet runs a fleet, reports what that took, and returns how many clusters ended how.
func measureFleet(b *testing.B, lab *labtest.Lab, kplan, file string) map[string]int {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), kplan, "fleet", "run", file, "--progress", "plain")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+lab.Kubeconfig)
	var out bytes.Buffer
	cmd.Stderr = &out
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	if err != nil && cmd.ProcessState.ExitCode() != 1 {
		b.Fatalf("%v\n%s", err, &out)
	}
	used := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took.Seconds(), "s/fleet")
	b.ReportMetric((cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), "cpu-s")
	b.ReportMetric(float64(used.Maxrss)/1024, "peak-MiB")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	b.Log(strings.Join(lines[max(len(lines)-40, 0):], "\n"))
	status := exec.CommandContext(b.Context(), kplan, "fleet", "status", "--fleet", file, "-o", "json")
	text, _ := status.Output() // 1 when something failed
	var s struct{ Counts map[string]int }
	require.NoError(b, json.Unmarshal(text, &s), "%s", text)
	return s.Counts
}

// memoryOfFleet is how many KiB a kplan has of its own which runs a fleet of so many clusters,
// while so many of them have a request held and the others wait.
func memoryOfFleet(b *testing.B, lab *labtest.Lab, kplan string, f *thousand.Fleet, clusters, parallel int) int {
	b.Helper()
	var held atomic.Int64
	for _, c := range f.Clusters {
		fail, told := thousand.Webhook("/configmaps/judged", refusedCall, -1), false
		c.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if thousand.IsWrite(r, "/configmaps/judged") && !told {
				told = true
				held.Add(1)
			}
			fail(w, r, next)
		})
	}
	file := f.WriteFleet(b, b.TempDir(), fmt.Sprintf("waves: [{name: all, parallel: %d}]", parallel), f.Clusters[:clusters]...)
	cmd := exec.CommandContext(b.Context(), kplan, "fleet", "run", file, "--progress", "plain")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+lab.Kubeconfig)
	require.NoError(b, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	require.Eventually(b, func() bool { return held.Load() == int64(parallel) }, 2*time.Minute, 100*time.Millisecond, "not all are held")
	most := 0
	for range 20 { // between two collections of garbage
		time.Sleep(250 * time.Millisecond)
		most = max(most, ownMemory(b, cmd.Process.Pid))
	}
	return most
}

// ownMemory is the KiB of a process that no file has.
func ownMemory(b *testing.B, pid int) int {
	b.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	require.NoError(b, err)
	for line := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(line, "RssAnon:"); is {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			require.NoError(b, err)
			return n
		}
	}
	b.Fatal("the process tells no RssAnon")
	return 0
}
