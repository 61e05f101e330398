package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
)

const lasting = `apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: lasting}
vars: {ns: {required: true}}
state: {namespace: "${{ vars.ns }}"}
steps:
  - name: config
    apply: {namespace: "${{ vars.ns }}", objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}]}
  - name: end
    needs: [config]
    wait: {resource: configmap/end, namespace: "${{ vars.ns }}", for: create}
`

// Of two runs of one plan at the same moment one works, and the other is refused.
func TestTwoRunsAtOnce(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	file := filepath.Join(t.TempDir(), "plan.yaml")
	require.NoError(t, os.WriteFile(file, []byte(lasting), 0o600))
	for range 10 {
		ns := lab.Namespace(t)
		refused := make(chan struct{}, 2)
		var (
			runs  sync.WaitGroup
			codes [2]int
			out   [2]bytes.Buffer
		)
		for i := range codes {
			cmd := command(t, "run", file, "--kubeconfig", lab.Kubeconfig, "--set", "ns="+ns)
			cmd.Stderr = &out[i]
			require.NoError(t, cmd.Start())
			runs.Go(func() {
				if exit, failed := cmd.Wait().(*exec.ExitError); failed { //nolint:errorlint // it is not wrapped
					codes[i] = exit.ExitCode()
				}
				refused <- struct{}{}
			})
		}
		select {
		case <-refused: // the other one still works: what it waits for comes now
		case <-time.After(time.Minute):
			t.Error("no run is refused")
		}
		made, err := exec.CommandContext(t.Context(), labtest.Kubectl(t), "--kubeconfig", lab.Kubeconfig, "create", "configmap", "end", "-n", ns).CombinedOutput()
		require.NoError(t, err, "%s", made)
		runs.Wait()
		assert.ElementsMatch(t, []int{0, 5}, codes[:], "%s\n%s", &out[0], &out[1])
		assert.Contains(t, out[0].String()+out[1].String(), "plan lasting is being run by another: run ")
	}
}
