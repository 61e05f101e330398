package labtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// toolsEnv names a folder with built tools, so that they need not be built.
const toolsEnv = "KPLAN_TOOLS"

// The tools that tests and benchmarks run beside kplan, of the versions of
// bench/rivals. Each is built once.
var (
	helm     = tool("helm", "helm.sh/helm/v3/cmd/helm")
	helm4    = tool("helm4", "helm.sh/helm/v4/cmd/helm")
	helmfile = tool("helmfile", "github.com/helmfile/helmfile")
	kapp     = tool("kapp", "carvel.dev/kapp/cmd/kapp")
)

// Helm returns the path of Helm 3's command.
func Helm(t testing.TB) string { return helm(t) }

// Helm4 returns the path of Helm 4's command.
func Helm4(t testing.TB) string { return helm4(t) }

// Helmfile returns the path of helmfile, which takes the path of a Helm.
func Helmfile(t testing.TB) string { return helmfile(t) }

// Kapp returns the path of kapp.
func Kapp(t testing.TB) string { return kapp(t) }

// tool finds the command of a name, or builds it of a package of bench/rivals.
func tool(name, pkg string) func(testing.TB) string {
	path := sync.OnceValues(func() (string, error) {
		if dir := os.Getenv(toolsEnv); dir != "" {
			return filepath.Join(dir, name), nil
		}
		dir := filepath.Join(os.TempDir(), "kplan-labtest")
		unlock, err := lock(filepath.Join(dir, "lock"))
		if err != nil {
			return "", err
		}
		defer unlock()
		path := filepath.Join(dir, name)
		// The tag leaves the clouds' SDKs out of helmfile.
		_, err = run(filepath.Join(source(), "..", "bench", "rivals"), "env", "CGO_ENABLED=0",
			"go", "build", "-trimpath", "-tags", "custom_providers", "-ldflags", "-s -w", "-o", path, pkg)
		return path, err
	})
	return func(t testing.TB) string {
		t.Helper()
		path, err := path()
		if err != nil {
			t.Fatalf("building %s: %v", name, err)
		}
		return path
	}
}

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
