package labtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
)

// toolsEnv names a folder with built tools, so that they need not be built.
const toolsEnv = "KPLAN_TOOLS"

// The paths of tools that tests and benchmarks run beside kplan, of the versions of
// bench/rivals. Each is built once.
var (
	Helm     = tool("helm", "helm.sh/helm/v3/cmd/helm")
	Helm4    = tool("helm4", "helm.sh/helm/v4/cmd/helm")
	Helmfile = tool("helmfile", "github.com/helmfile/helmfile") // which takes the path of a Helm
	Kapp     = tool("kapp", "carvel.dev/kapp/cmd/kapp")
)

// tool finds the command of a name, or builds it of a package of bench/rivals.
func tool(name, pkg string) func(testing.TB) string {
	path := sync.OnceValues(func() (string, error) {
		if dir := os.Getenv(toolsEnv); dir != "" {
			return filepath.Join(dir, name), nil
		}
		// The tag leaves the clouds' SDKs out of helmfile.
		return compile(name, filepath.Join(source(), "..", "bench", "rivals"),
			"-trimpath", "-tags", "custom_providers", "-ldflags", "-s -w", pkg)
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

// Build gives a program of the test's own module. It is compiled as the test is, with
// the race detector if the test has it, so that Go's cache has each package once.
func Build(t testing.TB, pkg string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(pkg))
	args := []string{"build", "-o", path}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = append(args, "-race")
	}
	if out, err := exec.CommandContext(t.Context(), "go", append(args, pkg)...).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", pkg, err, out)
	}
	return path
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
	out, err := kplanLab("exec", "--name", nodeName, "--", "sh", "-c", "command -v kubectl")
	return strings.TrimSpace(out), err
})
