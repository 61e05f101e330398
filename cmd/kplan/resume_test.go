package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// TestResumeAfterKill kills a run at work, and goes on with it.
func TestResumeAfterKill(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "plan.yaml")
	text := fmt.Sprintf(`apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: killed}
state: {namespace: %[1]s}
steps:
  - name: first
    apply: {namespace: %[1]s, objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: first}}]}
  - name: never
    needs: [first]
    wait: {resource: configmap/never, namespace: %[1]s, for: create}
  - name: last
    needs: [never]
    apply: {namespace: %[1]s, objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: last}}]}
`, ns)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	killed := command(t, "run", file, "--kubeconfig", lab.Kubeconfig, "--progress", "quiet")
	require.NoError(t, killed.Start())
	recorded := func() string {
		runs, _ := filepath.Glob(filepath.Join(dir, ".kplan", "runs", "*.jsonl"))
		var all []byte
		for _, r := range runs {
			b, _ := os.ReadFile(r)
			all = append(all, b...)
		}
		return string(all)
	}
	require.Eventually(t, func() bool { return strings.Contains(recorded(), `"step":"never","state":"running"`) }, time.Minute, 20*time.Millisecond)
	require.NoError(t, killed.Process.Kill())
	_ = killed.Wait()

	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(text, "configmap/never", "configmap/first")), 0o600))
	run := command(t, "history", file, "--kubeconfig", lab.Kubeconfig, "-o", "json")
	out, err := run.Output()
	require.NoError(t, err)
	require.Contains(t, string(out), `"state": "interrupted"`)

	run = command(t, "run", file, "--kubeconfig", lab.Kubeconfig, "--progress", "plain", "--resume")
	var errs bytes.Buffer
	run.Stderr = &errs
	require.NoError(t, run.Run(), &errs)
	require.Contains(t, errs.String(), "which did not come to its end: 1 of 3 steps were done")
	require.Regexp(t, `first +unchanged .*done in run [-0-9a-f]+\n`, errs.String())
	require.Regexp(t, `last +succeeded `, errs.String())
}

// TestResumeDeletesAgain goes on with a run whose delete step is done: it is done again
// if something before it had to be, and else what came since is none of its business.
func TestResumeDeletesAgain(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	file := filepath.Join(t.TempDir(), "plan.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: again}
state: {namespace: %[1]s}
steps:
  - name: first
    apply: {namespace: %[1]s, objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: first}}]}
  - name: there
    needs: [first]
    wait: {resource: configmap/first, namespace: %[1]s, for: create}
  - name: clean
    needs: [there]
    delete: {resource: configmap/rest, namespace: %[1]s}
`, ns), 0o600))
	run := func(flags ...string) string {
		cmd := command(t, append([]string{"run", file, "--kubeconfig", lab.Kubeconfig, "--progress", "plain"}, flags...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	maps := lab.Clientset(t).CoreV1().ConfigMaps(ns)
	leave := func() {
		_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "rest"}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	run()

	leave()
	require.Regexp(t, `clean +unchanged .*done in run`, run("--resume"))
	_, err := maps.Get(t.Context(), "rest", metav1.GetOptions{})
	require.NoError(t, err)

	require.NoError(t, maps.Delete(t.Context(), "first", metav1.DeleteOptions{}))
	require.Regexp(t, `clean +succeeded .*1 deleted`, run("--resume"))
	_, err = maps.Get(t.Context(), "rest", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

// TestSecondRunWritesNothing runs a plan of 20 steps twice, and counts what the API
// server is asked to write: only kplan's own lock and record.
func TestSecondRunWritesNothing(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	var (
		mu     sync.Mutex
		writes []string
	)
	counted := lab.Behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != http.MethodGet && r.URL.Query().Get("dryRun") == "" {
			mu.Lock()
			writes = append(writes, r.Method+" "+r.URL.Path)
			mu.Unlock()
		}
		next.ServeHTTP(w, r)
	})
	dir := t.TempDir()
	chart := filepath.Join(dir, "app")
	require.NoError(t, os.MkdirAll(filepath.Join(chart, "templates"), 0o700))
	for name, text := range map[string]string{
		"Chart.yaml":          "apiVersion: v2\nname: app\nversion: 1.0.0\n",
		"templates/all.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\ndata: {random: {{ randAlphaNum 5 | quote }}}\n",
		"templates/hook.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}-hook\", annotations: {helm.sh/hook: post-upgrade}}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(chart, name), []byte(text), 0o600))
	}
	plan := fmt.Sprintf("apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: twenty}\nstate: {namespace: %s}\nsteps:\n", ns)
	for i := range 5 {
		plan += fmt.Sprintf("  - {name: helm-%d, helm: {chart: ./app, release: r%d, namespace: %s}}\n", i, i, ns)
		plan += fmt.Sprintf("  - {name: wait-%d, needs: [helm-%d], wait: {resource: configmap/r%d, namespace: %s, for: create}}\n", i, i, i, ns)
	}
	for i := range 10 {
		var objects []string
		for j := range 12 {
			objects = append(objects, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: c%d-%d}, data: {k: v}}", i, j))
		}
		plan += fmt.Sprintf("  - {name: apply-%d, apply: {namespace: %s, objects: [%s]}}\n", i, ns, strings.Join(objects, ", "))
	}
	file := filepath.Join(dir, "plan.yaml")
	require.NoError(t, os.WriteFile(file, []byte(plan), 0o600))
	run := func(flags ...string) map[string]int {
		cmd := command(t, append([]string{"run", file, "--kubeconfig", counted.Kubeconfig, "--progress", "quiet", "-o", "json"}, flags...)...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		require.NoError(t, err, &errs)
		var result struct{ Counts map[string]int }
		require.NoError(t, json.Unmarshal(out, &result))
		return result.Counts
	}
	require.Equal(t, 20, run()["succeeded"]+5, "waits find what they wait for")
	for _, flags := range [][]string{nil, {"--resume"}} {
		mu.Lock()
		require.Greater(t, len(writes), 130, "the proxy sees writes")
		before := len(writes)
		mu.Unlock()
		require.Equal(t, map[string]int{"unchanged": 20}, run(flags...))
		mu.Lock()
		var others, own []string
		for _, w := range writes[before:] {
			if strings.Contains(w, "/apis/authorization.k8s.io/v1/selfsubject") {
				continue // which the API server keeps nowhere
			}
			if strings.Contains(w, "/namespaces/"+ns+"/leases") || strings.Contains(w, "/namespaces/"+ns+"/secrets/kplan-twenty") || strings.HasSuffix(w, "/namespaces/"+ns+"/secrets") {
				own = append(own, w)
			} else {
				others = append(others, w)
			}
		}
		mu.Unlock()
		require.Empty(t, others)
		require.NotEmpty(t, own)
	}
}
