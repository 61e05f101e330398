package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
)

const (
	// listed is how many pods a list has, and sent how many objects a chart.
	listed = 1000
	sent   = 500
)

// BenchmarkHold compares clients that reach the API server through a running kplan
// hold with the same ones alone, side by side and in turns: whoever is first in a
// pair is second in the next one. The bar is five percent, and 60 MB of memory.
func BenchmarkHold(b *testing.B) {
	lab := labtest.Node(b)
	ns := lab.Namespace(b)
	makePods(b, lab, ns)
	helm, kubectl := labtest.Helm(b), labtest.Kubectl(b)
	chart := largeChart(b)
	held := hold(b, lab)
	for _, bench := range []struct {
		name    string
		command func(release string) []string
		after   func(release string) []string
	}{
		{"get-pods", func(string) []string { return []string{kubectl, "get", "pods", "-A"} }, nil},
		{"list-1000-pods", func(string) []string { return []string{kubectl, "get", "--raw", "/api/v1/namespaces/" + ns + "/pods"} }, nil},
		{
			"install-500-objects",
			func(release string) []string { return []string{helm, "install", release, chart, "-n", ns} },
			func(release string) []string { return []string{helm, "uninstall", release, "-n", ns} },
		},
	} {
		b.Run(bench.name, func(b *testing.B) {
			took, n := [2][]time.Duration{}, 0
			for b.Loop() {
				for i := range 2 {
					side := (i + n) % 2
					kubeconfig, release := []string{lab.Kubeconfig, held.kubeconfig}[side], fmt.Sprintf("r%d-%d", n, side)
					took[side] = append(took[side], timed(b, kubeconfig, bench.command(release)))
					if bench.after != nil {
						timed(b, lab.Kubeconfig, bench.after(release))
					}
				}
				n++
			}
			slices.Sort(took[0])
			slices.Sort(took[1])
			alone, through := took[0][n/2], took[1][n/2]
			b.ReportMetric(0, "ns/op") // of no meaning: the sides lie in turns
			b.ReportMetric(ms(alone), "alone-ms")
			b.ReportMetric(ms(through), "held-ms")
			b.ReportMetric(100*(through.Seconds()/alone.Seconds()-1), "over-%")
			// The least of many says most on a machine that has other work.
			b.ReportMetric(ms(took[0][0]), "alone-least-ms")
			b.ReportMetric(ms(took[1][0]), "held-least-ms")
			m := held.memory(b)
			b.ReportMetric(m.most, "most-MB")
			b.ReportMetric(m.own, "own-MB")
		})
	}
}

// timed is how long a command takes.
func timed(b *testing.B, kubeconfig string, args []string) time.Duration {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+filepath.Join(filepath.Dir(kubeconfig), "bench-cache"))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	start := time.Now()
	err := cmd.Run()
	d := time.Since(start)
	require.NoError(b, err, errs.String())
	return d
}

// holding is a kplan hold that serves.
type holding struct {
	kubeconfig string
	process    *os.Process
	stop       func()
}

// hold starts one, which ends with the benchmark.
func hold(b *testing.B, lab *labtest.Lab, flags ...string) holding {
	b.Helper()
	dir := b.TempDir()
	kplan := filepath.Join(dir, "kplan")
	build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", kplan, "../cmd/kplan")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(b, err, string(out))
	h := holding{kubeconfig: filepath.Join(dir, "kubeconfig")}
	flags = append([]string{"hold", "--kubeconfig", lab.Kubeconfig, "--kubeconfig-out", h.kubeconfig, "--progress", "quiet"}, flags...)
	serve := exec.Command(kplan, flags...) //nolint:noctx // it is stopped below
	require.NoError(b, serve.Start())
	h.process = serve.Process
	h.stop = sync.OnceFunc(func() {
		_ = h.process.Signal(syscall.SIGTERM)
		_ = serve.Wait() // with 143
	})
	b.Cleanup(h.stop)
	require.Eventually(b, func() bool {
		_, err := os.Stat(h.kubeconfig)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	return h
}

// makePods makes pods that nobody schedules.
func makePods(b *testing.B, lab *labtest.Lab, ns string) {
	b.Helper()
	pods := lab.Clientset(b).CoreV1().Pods(ns)
	g, ctx := errgroup.WithContext(b.Context())
	g.SetLimit(20)
	for i := range listed {
		g.Go(func() error {
			_, err := pods.Create(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i)},
				Spec: corev1.PodSpec{
					SchedulerName: "nobody", Containers: []corev1.Container{{Name: "c", Image: labtest.OperatorImage}},
				},
			}, metav1.CreateOptions{})
			return err
		})
	}
	require.NoError(b, g.Wait())
	b.Cleanup(func() { // before the next benchmark lists them
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("the pods of a benchmark are left behind"))
		defer cancel()
		now := int64(0)
		_ = pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
	})
}

// largeChart writes a chart of many ConfigMaps.
func largeChart(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	require.NoError(b, os.Mkdir(filepath.Join(dir, "templates"), 0o755))
	for name, text := range map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: large, version: 0.1.0}\n",
		"templates/all.yaml": fmt.Sprintf("{{ range $i := until %d }}\n---\napiVersion: v1\nkind: ConfigMap\n"+
			"metadata: {name: '{{ $.Release.Name }}-{{ $i }}'}\ndata: {text: some text that is not long}\n{{ end }}\n", sent),
	} {
		require.NoError(b, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}
