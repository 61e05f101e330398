//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// statusPlan has a release, objects that ask for the output of another step, a wait and
// a step that is left out.
const statusPlan = `apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: status}
state: {namespace: %[1]s}
steps:
  - name: settings
    apply:
      namespace: %[1]s
      objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: green, size: "3"}}]
    outputs: {colour: {resource: configmap/settings, namespace: %[1]s, jsonpath: "{.data.colour}"}}
  - name: chart
    helm: {chart: ./chart, namespace: %[1]s}
  - name: waits
    needs: [settings]
    wait: {resource: configmap/settings, namespace: %[1]s, for: "jsonpath={.data.colour}=green"}
  - name: late
    needs: [settings]
    apply: {namespace: %[1]s, objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: late}, data: {of: "${{ steps.settings.outputs.colour }}"}}]}
  - {name: idle, when: false, apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: idle}}]}}
`

// TestStatus looks at a plan before its run, after it, once others have changed
// things, and while things go.
func TestStatus(t *testing.T) {
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	t.Setenv("KUBECONFIG", lab.Kubeconfig)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"plan.yaml": fmt.Sprintf(statusPlan, ns), "chart/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.2.3\n",
		"chart/templates/web.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: b}\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	plan := filepath.Join(dir, "plan.yaml")
	status := func(exit int, more ...string) string {
		cmd := command(t, append([]string{"status", plan}, more...)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if ended := (*exec.ExitError)(nil); exit != 0 && errors.As(err, &ended) {
			err = nil
		}
		require.NoError(t, err)
		require.Equal(t, exit, cmd.ProcessState.ExitCode(), string(out))
		return string(out)
	}

	out := status(1)
	require.Contains(t, out, "plan status is not healthy, on ")
	require.Contains(t, out, "no run of it is recorded")
	require.Regexp(t, `settings +apply +absent +0/1 .* ConfigMap/`+ns+`/settings is missing`, out)
	require.Regexp(t, `chart +helm +absent .* the release is not installed`, out)
	require.Regexp(t, `waits +wait +unhealthy .* it would wait for configmap/settings to have `, out)
	require.Regexp(t, `late +apply +unknown .* of which no run is recorded`, out)
	require.Regexp(t, `idle +apply +skipped .* when is false`, out)

	text, err := command(t, "run", plan, "--progress", "quiet").CombinedOutput()
	require.NoError(t, err, string(text))
	out = status(0)
	require.Regexp(t, `plan status is healthy, on .*\nlast run [0-9a-f-]+ succeeded, started `, out)
	require.Regexp(t, `chart +helm +healthy +1/1 +`+ns+`/chart rev 1 deployed +succeeded`, out)
	require.Regexp(t, `late +apply +healthy +1/1 +- +succeeded`, out)
	require.NotContains(t, out, "was changed")

	maps := lab.Clientset(t).CoreV1().ConfigMaps(ns)
	for name, patch := range map[string]string{"settings": `{"data":{"size":"4"}}`, "web": `{"data":{"a":null}}`} {
		_, err := maps.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"})
		require.NoError(t, err)
	}
	out = status(0)
	require.Contains(t, out, "ConfigMap/"+ns+`/settings was changed: data.size is "4" instead of "3" (by somebody)`)
	require.Contains(t, out, "ConfigMap/"+ns+`/web was changed: data is gone, which was {"a":"b"}`)
	require.Regexp(t, `settings +apply +healthy +1/1 .* 1 object changed by others`, out)

	watch := command(t, "status", plan, "--watch", "-o", "json", "--interval", "100ms")
	stdout, err := watch.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, watch.Start())
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for gone := false; ; {
		require.True(t, lines.Scan(), "it goes on")
		var c turn
		require.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		if c.Step.Name != "chart" {
			continue
		}
		if !gone {
			require.EqualValues(t, "healthy", c.Step.Health)
			require.NoError(t, maps.Delete(t.Context(), "web", metav1.DeleteOptions{}))
			gone = true
			continue
		}
		require.EqualValues(t, "unhealthy", c.Step.Health)
		require.Equal(t, "missing", c.Step.Troubles[0].State)
		break
	}
	require.NoError(t, watch.Process.Signal(syscall.SIGINT))
	require.Error(t, watch.Wait())
	require.Equal(t, 130, watch.ProcessState.ExitCode())
	require.Contains(t, status(1, "-o", "yaml"), "state: missing")
}
