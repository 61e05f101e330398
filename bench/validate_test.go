package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkValidate measures `kplan validate` as somebody at a prompt meets it, from
// the start of the process to its end. The bars are 60 ms for an example and one
// second for 10,000 steps. `kplan version` reads no plan: it is what the start of
// the process takes, and `helm version` is the same of a program of that size.
func BenchmarkValidate(b *testing.B) {
	dir := b.TempDir()
	kplan := filepath.Join(dir, "kplan")
	build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", kplan, "../cmd/kplan")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(b, err, string(out))

	lines := map[string][]string{
		"version":      {kplan, "version"},
		"10000-steps":  {kplan, "validate", largePlan(b, dir, 10_000)},
		"eso":          {kplan, "validate", "../examples/eso/plan.yaml"},
		"certmanager":  {kplan, "validate", "../examples/certmanager/plan.yaml"},
		"kof":          {kplan, "validate", "../examples/kof/plan.yaml"},
		"dynamo":       {kplan, "validate", "../examples/dynamo/plan.yaml"},
		"kgst":         {kplan, "validate", "../examples/kgst/plan.yaml"},
		"helm-version": {"helm", "version"},
	}
	for _, name := range []string{"version", "helm-version", "eso", "certmanager", "kof", "dynamo", "kgst", "10000-steps"} {
		b.Run(name, func(b *testing.B) {
			if _, err := exec.LookPath(lines[name][0]); err != nil {
				b.Skip("there is no helm on the PATH to compare with")
			}
			var took []time.Duration
			for b.Loop() {
				cmd := exec.CommandContext(b.Context(), lines[name][0], lines[name][1:]...)
				cmd.Env = append(os.Environ(), "REGISTRY_TOKEN=token")
				start := time.Now()
				out, err := cmd.CombinedOutput()
				took = append(took, time.Since(start))
				require.NoError(b, err, string(out))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
		})
	}
}

// largePlan writes a plan of n steps of all kinds, most of which need two others.
func largePlan(b *testing.B, dir string, n int) string {
	b.Helper()
	var text strings.Builder
	text.WriteString("apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: large}\nvars: {v: {default: 1.2.3}}\nsteps:\n")
	for i := range n {
		fmt.Fprintf(&text, "- name: s%d\n", i)
		if i >= 13 {
			fmt.Fprintf(&text, "  needs: [s%d, s%d]\n", i-10, i-13)
		}
		switch i % 4 {
		case 0:
			fmt.Fprintf(&text, "  helm: {chart: oci://r.example/c, version: \"${{ vars.v }}\", values: {a: %d}}\n", i)
		case 1:
			text.WriteString("  wait: {resource: pod/x, for: condition=Ready}\n")
		case 2:
			text.WriteString("  apply: {files: [a.yaml], wait: ready}\n")
		case 3:
			fmt.Fprintf(&text, "  webhook: {release: s%d}\n", i-3)
		}
	}
	file := filepath.Join(dir, "plan.yaml")
	require.NoError(b, os.WriteFile(file, []byte(text.String()), 0o600))
	require.NoError(b, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n"), 0o600))
	return file
}
