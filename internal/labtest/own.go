package labtest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

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
