package bench

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"text/template"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// sizes are how many objects a release has; of together each of 50 releases has few.
var sizes = []int{10, 150, 500}

const (
	together = 50
	few      = 10
)

// The bars are how many times faster than Helm kplan must be at 150 objects or more,
// judged by medians from five rounds on.
const (
	barChange = 2.2
	barNoOp   = 8
)

// operations are done one after the other with a release that is not there yet.
var operations = []string{"install", "upgrade", "nothing to do"}

// BenchmarkHelm measures how long tools take, each from the start of its process to the
// end, to install releases, to upgrade them when each object changes, and to find that
// there is nothing to do. Each round has namespaces of its own, and in each the tools
// come in an order by chance. One more round counts the requests.
func BenchmarkHelm(b *testing.B) {
	lab := labtest.ControlPlane(b)
	rivals := helmTools(b)
	start := busyTime()
	all := map[string]contest{}
	var order []string
	for _, n := range sizes {
		name := fmt.Sprintf("objects=%d", n)
		order = append(order, name)
		b.Run(name, func(b *testing.B) { all[name] = compete(b, lab, rivals, 1, n) })
	}
	name := fmt.Sprintf("releases=%d", together)
	order = append(order, name)
	b.Run(name, func(b *testing.B) { all[name] = compete(b, lab, rivals, together, few) })
	if *update && len(all) == len(order) {
		text := strings.Replace(about(b, lab, all[order[0]].rounds, start), "installs, one after the other", "rounds", 1)
		for _, file := range []string{"README.md", comparison} {
			require.NoError(b, rewrite(file, "helm", text+helmTable(order, all, rivals)))
		}
	}
}

// helmTool is a tool that does with releases what a folder says.
type helmTool struct {
	name string
	// lines are the command lines for a folder with releases of one namespace; they are
	// run side by side, as many as kplan runs steps.
	lines func(dir, namespace string, releases int) [][]string
}

// helmTools are kplan and those that do the same.
func helmTools(b *testing.B) []helmTool {
	b.Helper()
	kplan, helm, helm4, helmfile := labtest.Build(b, "../cmd/kplan"), labtest.Helm(b), labtest.Helm4(b), labtest.Helmfile(b)
	each := func(helm string) func(dir, namespace string, releases int) [][]string {
		return func(dir, namespace string, releases int) (lines [][]string) {
			for i := range releases {
				lines = append(lines, []string{
					helm, "upgrade", "--install", "--wait", fmt.Sprintf("bench-%d", i), filepath.Join(dir, "chart"),
					"-n", namespace, "-f", filepath.Join(dir, "values.yaml"),
				})
			}
			return lines
		}
	}
	return []helmTool{
		{"kplan", func(dir, _ string, _ int) [][]string {
			return [][]string{{kplan, "run", filepath.Join(dir, "plan.yaml"), "--progress", "quiet"}}
		}},
		{"helm", each(helm)},
		{"helm 4", each(helm4)},
		{"helmfile", func(dir, _ string, _ int) [][]string {
			return [][]string{{helmfile, "--quiet", "--helm-binary", helm, "-f", filepath.Join(dir, "helmfile.yaml"), "sync"}}
		}},
	}
}

// contest is what tools took for releases of one size.
type contest struct {
	rounds int
	// took has the times of a tool for an operation, sorted, by "TOOL/OPERATION"; requests
	// how many it sent.
	took     map[string][]time.Duration
	requests map[string]int64
}

// median is the middle one of a tool's times for an operation.
func (c contest) median(tool, operation string) time.Duration {
	all := c.took[tool+"/"+operation]
	return all[len(all)/2]
}

// faster is how many times faster kplan is than Helm.
func (c contest) faster(operation string) float64 {
	return float64(c.median("helm", operation)) / float64(c.median("kplan", operation))
}

// compete lets the tools do all operations in each round.
func compete(b *testing.B, lab *labtest.Lab, tools []helmTool, releases, objects int) contest {
	b.Helper()
	c := contest{took: map[string][]time.Duration{}, requests: map[string]int64{}}
	for b.Loop() {
		c.rounds++
		for _, i := range rand.Perm(len(tools)) {
			compete1(b, lab, lab.Kubeconfig, tools[i], releases, objects, func(operation string, took time.Duration) {
				key := tools[i].name + "/" + operation
				c.took[key] = append(c.took[key], took)
			})
		}
	}
	b.ReportMetric(0, "ns/op") // of a round with all tools says nothing
	for key, all := range c.took {
		slices.Sort(all)
		tool, operation, _ := strings.Cut(key, "/")
		b.ReportMetric(float64(c.median(tool, operation).Milliseconds()), strings.ReplaceAll(tool+"-"+operation, " ", "-")+"-ms")
	}
	var requests atomic.Int64
	counted := lab.Behind(b, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		requests.Add(1)
		next.ServeHTTP(w, r)
	})
	for _, tool := range tools {
		before := requests.Load()
		compete1(b, lab, counted.Kubeconfig, tool, releases, objects, func(operation string, _ time.Duration) {
			c.requests[tool.name+"/"+operation], before = requests.Load()-before, requests.Load()
		})
	}
	c.judge(b, releases, objects)
	return c
}

// judge fails the benchmark when kplan misses a bar.
func (c contest) judge(b *testing.B, releases, objects int) {
	b.Helper()
	if kplan, helm := c.requests["kplan/install"], c.requests["helm/install"]; kplan > helm {
		b.Errorf("kplan sent %d requests for an install, and Helm %d", kplan, helm)
	}
	if releases > 1 || objects < 150 || c.rounds < 5 {
		return
	}
	for operation, bar := range map[string]float64{"install": barChange, "upgrade": barChange, "nothing to do": barNoOp} {
		if f := c.faster(operation); f < bar {
			b.Errorf("%s: %.1f times faster than Helm, the bar is %.1f", operation, f, bar)
		}
	}
}

// compete1 lets one tool do all operations, and takes the time of each.
func compete1(b *testing.B, lab *labtest.Lab, kubeconfig string, tool helmTool, releases, objects int, took func(string, time.Duration)) {
	b.Helper()
	dir, namespace := b.TempDir(), lab.Namespace(b)
	writeReleases(b, dir, namespace, releases, objects)
	for _, operation := range operations {
		generation := "1"
		if operation != "install" {
			generation = "2"
		}
		require.NoError(b, os.WriteFile(filepath.Join(dir, "values.yaml"), []byte("generation: "+generation+"\n"), 0o600))
		start := time.Now()
		sideBySide(b, kubeconfig, tool.lines(dir, namespace, releases))
		took(operation, time.Since(start))
	}
}

// sideBySide runs command lines, eight at once as kplan runs steps, and fails the
// benchmark when one fails.
func sideBySide(b *testing.B, kubeconfig string, lines [][]string) {
	b.Helper()
	const parallel = 8
	limit, failed := make(chan struct{}, parallel), make(chan error, len(lines))
	for _, line := range lines {
		limit <- struct{}{}
		go func() { // ends with its command; all are waited for below
			defer func() { <-limit }()
			cmd := exec.CommandContext(b.Context(), line[0], line[1:]...)
			cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
			out, err := cmd.CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%s: %w: %s", line[0], err, out[max(0, len(out)-2000):])
			}
			failed <- err
		}()
	}
	for range lines {
		require.NoError(b, <-failed)
	}
}

// writeReleases writes a chart of as many objects as releases have, a plan, and a
// helmfile.
func writeReleases(b *testing.B, dir, namespace string, releases, objects int) {
	b.Helper()
	write := func(name string, text []byte) {
		path := filepath.Join(dir, name)
		require.NoError(b, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(b, os.WriteFile(path, text, 0o600))
	}
	write("chart/Chart.yaml", []byte("{apiVersion: v2, name: bench, version: 1.0.0}\n"))
	write("chart/values.yaml", []byte("generation: 0\n"))
	for i, kind := range chartKinds {
		count := objects / len(chartKinds)
		if i < objects%len(chartKinds) {
			count++
		}
		write("chart/templates/"+kind.name+".yaml", fmt.Appendf(nil, chartTemplate, count, kind.name, kind.version, kind.kind, kind.body))
	}
	for name, text := range map[string]string{"plan.yaml": planOfReleases, "helmfile.yaml": helmfileOfReleases} {
		var out bytes.Buffer
		require.NoError(b, template.Must(template.New("").Delims("<<", ">>").Parse(text)).Execute(&out,
			map[string]any{"Namespace": namespace, "Releases": make([]struct{}, releases)}))
		write(name, out.Bytes())
	}
}

// chartKinds are the kinds of the chart's objects, in equal shares: those that an
// operator's chart has most of, and that no program of a node has to act on.
var chartKinds = []struct{ name, version, kind, body string }{
	{"accounts", "v1", "ServiceAccount", "automountServiceAccountToken: false"},
	{"secrets", "v1", "Secret", "stringData: {token: {{ $.Values.generation | quote }}}"},
	{"configs", "v1", "ConfigMap", "data:\n  config.yaml: |\n    listen: 0.0.0.0:8080\n    generation: {{ $.Values.generation }}\n  level: info"},
	{"roles", "rbac.authorization.k8s.io/v1", "Role", "rules:\n- {apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch]}"},
	{"services", "v1", "Service", "spec: {selector: {app: bench}, ports: [{name: http, port: 80, targetPort: 8080}], type: ClusterIP, clusterIP: None}"},
}

const (
	chartTemplate = `{{- range $i := until %d }}
---
apiVersion: %[3]s
kind: %[4]s
metadata:
  name: {{ $.Release.Name }}-%[2]s-{{ $i }}
  labels: {app.kubernetes.io/name: bench, app.kubernetes.io/instance: {{ $.Release.Name }}, generation: {{ $.Values.generation | quote }}}
%[5]s
{{- end }}
`
	planOfReleases = `apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: <<.Namespace>>}
steps:
<<range $i, $_ := .Releases>>- {name: bench-<<$i>>, helm: {chart: ./chart, namespace: <<$.Namespace>>, values_files: [values.yaml]}}
<<end>>`
	helmfileOfReleases = `releases:
<<range $i, $_ := .Releases>>- {name: bench-<<$i>>, chart: ./chart, namespace: <<$.Namespace>>, createNamespace: false, wait: true, values: [values.yaml]}
<<end>>`
)

// helmTable says what all tools took.
func helmTable(order []string, all map[string]contest, tools []helmTool) string {
	var t strings.Builder
	t.WriteString("| median of a round, ms (requests) |")
	for _, tool := range tools {
		t.WriteString(" " + tool.name + " |")
	}
	t.WriteString(" helm ÷ kplan |\n|---|" + strings.Repeat("---:|", len(tools)+1) + "\n")
	for _, name := range order {
		c := all[name]
		for _, operation := range operations {
			what := strings.TrimPrefix(name, "objects=") + " objects"
			if n, ok := strings.CutPrefix(name, "releases="); ok {
				what = fmt.Sprintf("%s releases of %d objects", n, few)
			}
			fmt.Fprintf(&t, "| %s, %s |", what, operation)
			for _, tool := range tools {
				fmt.Fprintf(&t, " %d (%d) |", c.median(tool.name, operation).Milliseconds(), c.requests[tool.name+"/"+operation])
			}
			fmt.Fprintf(&t, " %.1f × |\n", c.faster(operation))
		}
	}
	return t.String()
}
