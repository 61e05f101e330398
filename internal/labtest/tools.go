package labtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// helmEnv names a built helm, so that it need not be built.
const helmEnv = "KPLAN_HELM"

// Helm is the path of Helm's own command, of the version that the benchmarks compare
// with. It is built once.
func Helm(t testing.TB) string {
	t.Helper()
	path, err := helm()
	if err != nil {
		t.Fatalf("building helm: %v", err)
	}
	return path
}

var helm = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(helmEnv); path != "" {
		return path, nil
	}
	dir := filepath.Join(os.TempDir(), "kplan-labtest")
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	path := filepath.Join(dir, "helm")
	_, err = run(filepath.Join(source(), "..", "bench", "rivals"), "env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "helm.sh/helm/v3/cmd/helm")
	return path, err
})

// Kubectl is the path of kubectl: the lab's, or, with a cluster of
// KPLAN_TEST_KUBECONFIG, that of PATH.
func Kubectl(t testing.TB) string {
	t.Helper()
	if os.Getenv(KubeconfigEnv) == "" {
		Node(t)
		path, err := kubectl()
		if err != nil {
			t.Fatalf("finding the lab's kubectl: %v", err)
		}
		return path
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("needs kubectl")
	}
	return path
}

var kubectl = sync.OnceValues(func() (string, error) {
	command, err := build(filepath.Join(os.TempDir(), "kplan-labtest"))
	if err != nil {
		return "", err
	}
	out, err := run("", command, "exec", "--name", nodeName, "--", "sh", "-c", "command -v kubectl")
	return strings.TrimSpace(out), err
})
