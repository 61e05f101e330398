// Package labtest gives tests a real Kubernetes API server: the cluster of
// KPLAN_TEST_KUBECONFIG, or a lab that it brings up by the lab's own command.
// All packages and test processes share one lab of each kind, so every test
// works in a namespace of its own.
//
// It never takes a lab down ("make test" does, and "kplan-lab down --name
// test" by hand), and never uses the cluster of KUBECONFIG: that may be
// somebody's.
package labtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Environment variables that tests understand.
const (
	// KubeconfigEnv names the kubeconfig of a cluster that tests may fill.
	KubeconfigEnv = "KPLAN_TEST_KUBECONFIG"
	// commandEnv names a built kplan-lab, so that it need not be built.
	commandEnv = "KPLAN_LAB"
)

// The labs that tests share, by name.
const (
	controlPlaneName = "test-cp"
	nodeName         = "test"
)

// Lab is a cluster for tests.
type Lab struct {
	// Kubeconfig is the path of its administrator's kubeconfig.
	Kubeconfig string

	name  string // of a lab of the test's own
	netns string // its network namespace; "" of a cluster that is no lab
}

// ControlPlane is a cluster that need not run pods. The test is skipped where
// there can be none, and fails instead where CI is true.
func ControlPlane(t testing.TB) *Lab {
	t.Helper()
	return lab(t, controlPlane)
}

// Node is a cluster with at least one node that runs pods; see ControlPlane.
func Node(t testing.TB) *Lab {
	t.Helper()
	l := lab(t, node)
	nodes, err := l.Clientset(t).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, n := range nodes.Items {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return l
			}
		}
	}
	unavailable(t, errors.New("the cluster has no node that is ready"))
	return nil
}

var (
	controlPlane = sync.OnceValues(func() (*Lab, error) { return find(controlPlaneName, "--nodes", "0") })
	node         = sync.OnceValues(func() (*Lab, error) { return find(nodeName) })
)

func lab(t testing.TB, get func() (*Lab, error)) *Lab {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a cluster; left out by -short")
	}
	l, err := get()
	if err != nil {
		unavailable(t, err)
	}
	return l
}

func unavailable(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("no cluster for tests: %v", err)
	}
	t.Skipf("no cluster for tests: %v", err)
}

// find gives the cluster of the environment, or brings up the lab of a name.
// Bringing up one that runs is harmless, also by two test processes at once.
func find(name string, upArgs ...string) (*Lab, error) {
	if path := os.Getenv(KubeconfigEnv); path != "" {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("%s: %w", KubeconfigEnv, err)
		}
		return &Lab{Kubeconfig: path}, nil
	}
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return nil, fmt.Errorf("a lab needs Linux and root; set %s to use a cluster that you have", KubeconfigEnv)
	}
	if _, err := kplanLab(append([]string{"up", "--name", name}, upArgs...)...); err != nil {
		return nil, err
	}
	// The lab's own file: a copy would be written while others read it.
	path, err := kplanLab("kubeconfig", "--name", name, "--path")
	if err != nil {
		return nil, err
	}
	return &Lab{Kubeconfig: strings.TrimSpace(path), netns: "kplan-lab-" + name}, nil
}

// Inside makes a command that runs in the network of the lab's node, where the addresses of
// Services lead to them. The test is skipped with a cluster of KPLAN_TEST_KUBECONFIG.
func (l *Lab) Inside(t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	if l.netns == "" {
		t.Skipf("the network of a cluster of %s is not this machine's", KubeconfigEnv)
	}
	return exec.CommandContext(t.Context(), "ip", append([]string{"netns", "exec", l.netns, program}, args...)...)
}

// kplanLab runs the lab's command and returns its output.
func kplanLab(args ...string) (string, error) {
	path, err := command()
	if err != nil {
		return "", err
	}
	return run("", path, args...)
}

// command makes the lab's command, which is a module of its own.
var command = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(commandEnv); path != "" {
		return path, nil
	}
	if _, err := os.Stat(filepath.Join(source(), "go.mod")); err != nil {
		return "", fmt.Errorf("the lab is not there: %w", err)
	}
	return compile("kplan-lab", source(), "./cmd/kplan-lab")
})

// compile makes a program in a folder that all test processes share. Others may run
// it, or load it, meanwhile: go build renames to it what it has made in the same
// folder. A lock keeps two of them from linking it at once.
func compile(name, source string, args ...string) (string, error) {
	folder := filepath.Join(os.TempDir(), "kplan-labtest")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	lock := flock.New(filepath.Join(folder, "lock"))
	if err := lock.Lock(); err != nil {
		return "", fmt.Errorf("locking %s: %w", folder, err)
	}
	defer lock.Close()
	path := filepath.Join(folder, name)
	_, err := run(source, "env", append([]string{"CGO_ENABLED=0", "GOTMPDIR=" + folder, "go", "build", "-o", path}, args...)...)
	return path, err
}

// source is the lab's module.
func source() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "lab")
}

// run runs a command to its end; its output is in the error when it fails.
func run(dir, name string, args ...string) (string, error) {
	// No bound of its own: the first start builds Kubernetes, and go test has a timeout.
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Dir = dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = 5 * time.Second // what it leaves running may keep its output open
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		said := cmp.Or(strings.TrimSpace(errs.String()), strings.TrimSpace(out.String()))
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, said)
	}
	return out.String(), nil
}

// Flags are kubectl's flags, set to the lab.
func (l *Lab) Flags() *genericclioptions.ConfigFlags {
	f := genericclioptions.NewConfigFlags(false)
	f.KubeConfig = &l.Kubeconfig
	return f
}

// Config is the administrator's access, without client-side rate limits.
func (l *Lab) Config(t testing.TB) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig)
	require.NoError(t, err)
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	return config
}

// Clientset is a client with the administrator's access.
func (l *Lab) Clientset(t testing.TB) kubernetes.Interface {
	t.Helper()
	set, err := kubernetes.NewForConfig(l.Config(t))
	require.NoError(t, err)
	return set
}

// Namespace makes a namespace for the test, and asks for its deletion at the end.
// It has what the controllers put into each: a test that counts the calls of a
// webhook counts its own.
func (l *Lab) Namespace(t testing.TB) string {
	t.Helper()
	namespaces := l.Clientset(t).CoreV1().Namespaces()
	ns, err := namespaces.Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "t-", Labels: map[string]string{"kplan.dev/test": "true"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeoutCause(context.Background(), 10*time.Second, errors.New("the namespace of a test is left behind"))
		defer cancel()
		_ = namespaces.Delete(ctx, ns.Name, metav1.DeleteOptions{})
	})
	require.Eventually(t, func() bool {
		core := l.Clientset(t).CoreV1()
		_, err := core.ConfigMaps(ns.Name).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		if err == nil {
			_, err = core.ServiceAccounts(ns.Name).Get(t.Context(), "default", metav1.GetOptions{})
		}
		return err == nil
	}, time.Minute, 20*time.Millisecond, "the controllers fill no namespace")
	return ns.Name
}

// Own is a control plane of the test's own, called name, whose components it
// may restart; it is taken down at the end. The test is skipped with a cluster
// of KPLAN_TEST_KUBECONFIG.
func Own(t testing.TB, name string) *Lab {
	t.Helper()
	if os.Getenv(KubeconfigEnv) != "" {
		t.Skip("restarts the control plane, which somebody else may use; " + KubeconfigEnv + " is set")
	}
	return own(t, name, "--nodes", "0")
}

// OwnNode is a lab of the test's own, called name, with a node; see Own.
func OwnNode(t testing.TB, name string) *Lab {
	t.Helper()
	if os.Getenv(KubeconfigEnv) != "" {
		t.Skip("needs a cluster beside the one of " + KubeconfigEnv)
	}
	return own(t, name)
}

func own(t testing.TB, name string, upArgs ...string) *Lab {
	t.Helper()
	l := lab(t, func() (*Lab, error) { return find(name, upArgs...) })
	l.name = name
	t.Cleanup(func() { _, _ = kplanLab("down", "--name", name) })
	return l
}

// Restart ends a component of a lab of the test's own, kube-apiserver for
// example, and starts it again. It returns when that is ready.
func (l *Lab) Restart(t testing.TB, component string) {
	t.Helper()
	require.NotEmpty(t, l.name, "only a lab of the test's own may be restarted")
	_, err := kplanLab("restart", "--name", l.name, component)
	require.NoError(t, err)
}
