package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// ends runs a command line in this process, and returns what it wrote.
func ends(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	got := execute(append([]string{"kplan"}, args...), strings.NewReader(""), &out, &errs)
	require.Equal(t, code, got, "kplan %s:\n%s%s", strings.Join(args, " "), &out, &errs)
	return out.String(), errs.String()
}

// settings are the files of a chart with one ConfigMap.
func settings(name, version, text string) map[string]string {
	return map[string]string{
		"Chart.yaml":             "apiVersion: v2\nname: " + name + "\nversion: " + version + "\n",
		"values.yaml":            "text: " + text + "\n",
		"templates/objects.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {text: {{ .Values.text | quote }}}\n",
	}
}

// inFolder writes files into a new folder and returns its path.
func inFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// A lock file has the version that a constraint led to; --update moves it; a plan that
// is locked refuses a chart that was replaced under the same version.
func TestLock(t *testing.T) {
	lab, registry := labtest.ControlPlane(t), labtest.Registry(t)
	ns := lab.Namespace(t)
	t.Setenv("KPLAN_CACHE", t.TempDir())
	t.Setenv("KUBECONFIG", lab.Kubeconfig)
	repository := registry + "/" + ns + "/settings"
	first := labtest.PushChart(t, repository+":1.0.0", settings("settings", "1.0.0", "first"))
	plan := filepath.Join(inFolder(t, map[string]string{"plan.yaml": fmt.Sprintf(`apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: %s}
vars: {version: {default: ^1.0}}
steps:
- name: s
  helm: {chart: oci://%s, version: "${{ vars.version }}", plain_http: true, namespace: %s}
`, ns, repository, ns)}), "plan.yaml")
	file := strings.TrimSuffix(plan, ".yaml") + ".lock.yaml"

	_, stderr := ends(t, 2, "run", plan, "--locked", "--progress", "plain")
	require.Contains(t, stderr, "the plan has no lock file")
	out, _ := ends(t, 3, "lock", plan, "--check")
	require.Contains(t, out, "missing  chart oci://"+repository+" ^1.0")

	out, _ = ends(t, 0, "lock", plan)
	require.Contains(t, out, "plan.lock.yaml: 1 reference, written")
	locked := textOf(t, file)
	require.Contains(t, locked, "constraint: ^1.0\n  version: 1.0.0\n")
	require.Contains(t, locked, first.Digest.String(), "the digest of the manifest in the registry")
	ends(t, 0, "lock", plan, "--check")
	out, _ = ends(t, 0, "lint", plan)
	require.NotContains(t, out, "unpinned-chart", "what is locked does not move")
	ends(t, 0, "run", plan, "--locked", "--progress", "plain")

	// A newer chart is no reason to move.
	labtest.PushChart(t, repository+":1.1.0", settings("settings", "1.1.0", "second"))
	ends(t, 0, "lock", plan)
	require.Equal(t, locked, textOf(t, file))
	ends(t, 0, "lock", plan, "--check")
	ends(t, 0, "run", plan, "--progress", "plain")
	_, stderr = ends(t, 2, "lock", plan, "--update=x")
	require.Contains(t, stderr, `the plan has no step "x"`)
	out, _ = ends(t, 0, "lock", plan, "--update=s")
	require.Contains(t, out, ": 1.1.0, was 1.0.0")
	moved := textOf(t, file)

	// Other values of the variables have entries of their own.
	out, _ = ends(t, 0, "lock", plan, "--set", "version=1.0.0")
	require.Contains(t, out, "unused   chart oci://"+repository+" ^1.0")
	require.Contains(t, textOf(t, file), "version: 1.0.0")
	out, _ = ends(t, 0, "lock", plan, "--prune")
	require.Contains(t, out, "removed  chart oci://"+repository+" 1.0.0")
	require.Equal(t, moved, textOf(t, file))
	_, stderr = ends(t, 0, "run", plan, "--progress", "plain", "--set", "version=1.0.0")
	require.Contains(t, stderr, "note: the lock file does not have chart oci://"+repository+" 1.0.0")
	_, stderr = ends(t, 1, "run", plan, "--locked", "--progress", "plain", "--set", "version=1.0.0")
	require.Contains(t, stderr, "is not locked")

	// Somebody replaces the chart.
	labtest.PushChart(t, repository+":1.1.0", settings("settings", "1.1.0", "replaced"))
	want := strings.Fields(strings.SplitN(moved, "digest: ", 2)[1])[0]
	for _, args := range [][]string{
		{"run", plan, "--progress", "plain"}, {"diff", plan}, {"lock", plan, "--check"}, {"lock", plan},
	} {
		out, stderr = ends(t, 1, args...)
		require.Regexp(t, "it is sha256:[0-9a-f]{64}, locked is "+want, out+stderr, "%v", args)
		require.Contains(t, out+stderr, "kplan lock PLAN --update=STEP", "%v", args)
	}
	require.Equal(t, moved, textOf(t, file))
	ends(t, 0, "lock", plan, "--update")
	require.NotContains(t, textOf(t, file), want)
	ends(t, 0, "run", plan, "--locked", "--progress", "plain")

	require.NoError(t, os.WriteFile(file, []byte("kind: Lock\ncharts: [{}]\n"), 0o644))
	_, stderr = ends(t, 2, "run", plan, "--progress", "plain")
	require.Contains(t, stderr, file+":2:10: the entry has no name")
	require.NoError(t, os.Remove(file))
}
