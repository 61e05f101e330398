package bench

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// many is how many objects each tool finds unchanged.
const many = 1000

// barUnchanged is how much of kapp's time kplan may take for them.
const barUnchanged = 0.7

// BenchmarkUnchanged measures how long a tool takes, from the start of its process to
// the end, to find that none of 1,000 ConfigMaps which it has applied has changed.
// Each tool has a namespace of its own; in each round all come, in an order by chance.
// The bar is a part of kapp's median, from five rounds on. kubectl sends all of them,
// and no more in a second than it lets itself.
func BenchmarkUnchanged(b *testing.B) {
	lab := labtest.ControlPlane(b)
	kplan, kapp, kubectl := labtest.Build(b, "../cmd/kplan"), labtest.Kapp(b), labtest.Kubectl(b)
	tools := []struct {
		name string
		line func(dir, namespace string) []string
	}{
		{"kplan", func(dir, _ string) []string { return []string{kplan, "run", filepath.Join(dir, "plan.yaml")} }},
		{"kapp", func(dir, namespace string) []string {
			return []string{kapp, "deploy", "--yes", "-a", "unchanged", "-n", namespace, "-f", filepath.Join(dir, "objects.yaml")}
		}},
		{"kubectl", func(dir, _ string) []string {
			return []string{kubectl, "apply", "--server-side", "-f", filepath.Join(dir, "objects.yaml")}
		}},
	}
	runs, took := map[string]func(kubeconfig string) time.Duration{}, map[string][]time.Duration{}
	for _, tool := range tools {
		dir, namespace := b.TempDir(), lab.Namespace(b)
		manyObjects(b, dir, namespace)
		runs[tool.name] = func(kubeconfig string) time.Duration {
			line := tool.line(dir, namespace)
			cmd := exec.CommandContext(b.Context(), line[0], line[1:]...)
			cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
			start := time.Now()
			out, err := cmd.CombinedOutput()
			elapsed := time.Since(start)
			require.NoError(b, err, "%s: %s", tool.name, out[max(0, len(out)-2000):])
			return elapsed
		}
		runs[tool.name](lab.Kubeconfig)
	}
	for b.Loop() {
		for _, i := range rand.Perm(len(tools)) {
			took[tools[i].name] = append(took[tools[i].name], runs[tools[i].name](lab.Kubeconfig))
		}
	}
	for _, tool := range tools {
		slices.Sort(took[tool.name])
		b.ReportMetric(float64(took[tool.name][len(took[tool.name])/2].Milliseconds()), tool.name+"-p50-ms")
	}
	b.ReportMetric(0, "ns/op") // of a round with all tools says nothing

	var mu sync.Mutex
	var writes []string
	counted := lab.Behind(b, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/configmaps") {
			mu.Lock()
			writes = append(writes, r.Method+" "+r.URL.Path)
			mu.Unlock()
		}
		next.ServeHTTP(w, r)
	})
	runs["kplan"](counted.Kubeconfig)
	require.Empty(b, writes)
	ratio := float64(took["kplan"][b.N/2]) / float64(took["kapp"][b.N/2])
	b.ReportMetric(ratio, "of-kapp")
	if b.N >= 5 {
		require.Less(b, ratio, barUnchanged, "%v", took)
	}
}

// manyObjects writes them, and a plan that applies them.
func manyObjects(b *testing.B, dir, namespace string) {
	b.Helper()
	var text strings.Builder
	for i := range many {
		fmt.Fprintf(&text, `---
apiVersion: v1
kind: ConfigMap
metadata:
  name: item-%04[1]d
  namespace: %[2]s
  labels: {app.kubernetes.io/name: bench, tier: "%[3]d"}
data:
  config.yaml: |
    listen: 0.0.0.0:80
    name: item-%[1]d
  level: info
`, i, namespace, i%7)
	}
	require.NoError(b, os.WriteFile(filepath.Join(dir, "objects.yaml"), []byte(text.String()), 0o600))
	plan := "apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: " + namespace + "}\nsteps:\n- {name: objects, apply: {files: [objects.yaml]}}\n"
	require.NoError(b, os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte(plan), 0o600))
}
