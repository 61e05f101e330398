//go:build unix

package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// command is this test binary, run as kplan.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Args = append([]string{"kplan"}, args...)
	return cmd
}

const neverEnds = `apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: never}
steps:
  - name: never
    wait: {resource: configmap/never, namespace: default, for: create}
  - name: after
    needs: [never]
    wait: {resource: configmap/never, namespace: default, for: create}
`

// TestInterrupted stops a run on a real API server.
func TestInterrupted(t *testing.T) {
	lab := labtest.ControlPlane(t)
	file := filepath.Join(t.TempDir(), "plan.yaml")
	require.NoError(t, os.WriteFile(file, []byte(neverEnds), 0o600))
	codes := map[os.Signal]int{os.Interrupt: 130, syscall.SIGTERM: 143}
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		codes[syscall.SIGHUP] = 129
	}
	for sig, code := range codes {
		report := filepath.Join(t.TempDir(), "r.json")
		cmd := command(t, "run", file, "--kubeconfig", lab.Kubeconfig, "--report", "json="+report)
		stderr, err := cmd.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewReader(stderr)
		for line := ""; !strings.Contains(line, "never  running"); {
			line, err = lines.ReadString('\n')
			require.NoError(t, err)
		}
		require.NoError(t, cmd.Process.Signal(sig))
		rest, err := io.ReadAll(lines)
		require.NoError(t, err)
		exit := &exec.ExitError{}
		require.ErrorAs(t, cmd.Wait(), &exit)
		require.Equal(t, code, exit.ExitCode(), "%s", rest)
		require.Contains(t, string(rest), "nothing new starts, requests in flight may end; ^C now aborts at once")
		require.Contains(t, string(rest), "never  cancelled  stopped at work")
		require.Contains(t, string(rest), "after  cancelled  not started")
		written, err := os.ReadFile(report)
		require.NoError(t, err, "a run that was stopped is reported too")
		require.Contains(t, string(written), `"state": "cancelled"`)
	}
}

// TestReaderGone checks that a run ends well although nobody reads what it
// writes any more, as in kplan run … 2>&1 | head -1.
func TestReaderGone(t *testing.T) {
	lab := labtest.ControlPlane(t)
	file := filepath.Join(t.TempDir(), "plan.yaml")
	good := strings.ReplaceAll(neverEnds, "resource: configmap/never, namespace: default", "resource: namespace/default")
	require.NoError(t, os.WriteFile(file, []byte(good), 0o600))
	for _, progress := range []string{"plain", "json"} {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, r.Close())
		cmd := command(t, "run", file, "--kubeconfig", lab.Kubeconfig, "--progress", progress, "-o", "json")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, w
		require.NoError(t, cmd.Run(), "stderr is gone")
		require.Contains(t, out.String(), `"state": "succeeded"`)

		cmd = command(t, "run", file, "--kubeconfig", lab.Kubeconfig, "--progress", progress, "-o", "json")
		cmd.Stdout, cmd.Stderr = w, w
		require.NoError(t, cmd.Run(), "both are gone")
		require.NoError(t, w.Close())
	}
}

// TestReaderOfResultsGone checks that it is no fault of a command when nobody
// reads its result to the end, as in kplan completion bash | head -1.
func TestReaderOfResultsGone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plan.yaml")
	require.NoError(t, os.WriteFile(file, []byte(neverEnds), 0o600))
	for _, args := range [][]string{
		{"validate", file},
		{"validate", file, "-o", "yaml"},
		{"graph", file},
		{"version"},
		{"version", "-o", "json"},
		{"run", "--help"},
		{"--version"},
		{"completion", "bash"},
	} {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, r.Close())
		cmd := command(t, args...)
		var errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = w, &errs
		require.NoError(t, cmd.Run(), "%v: %s", args, &errs)
		require.Empty(t, errs.String(), args)
		require.NoError(t, w.Close())
	}
}

// A bundle that is interrupted while it is made leaves nothing behind.
func TestBundleInterrupted(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	registry := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-r.Context().Done() // it never answers
	}))
	t.Cleanup(registry.Close)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte(`apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: x}
steps:
- name: pod
  apply: {objects: [{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: x}, spec: {containers: [{name: x, image: "`+strings.TrimPrefix(registry.URL, "http://")+`/x:1"}]}}]}
`), 0o600))
	cmd := command(t, "bundle", "plan.yaml", "--images")
	cmd.Dir = dir
	require.NoError(t, cmd.Start())
	<-asked
	require.NoError(t, cmd.Process.Signal(os.Interrupt))

	exit := &exec.ExitError{}
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, 130, exit.ExitCode())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "%v", left)
}
