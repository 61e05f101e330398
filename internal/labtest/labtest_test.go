package labtest

import (
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
)

// A test process that asks for the lab must not take the kubeconfig away from
// under the tests of others, not even for a moment.
func TestKubeconfigIsThereAtAllTimes(t *testing.T) {
	lab := ControlPlane(t)
	if os.Getenv(KubeconfigEnv) != "" {
		t.Skip("the kubeconfig is somebody else's; " + KubeconfigEnv + " is set")
	}
	stop := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		defer close(stop)
		for range 20 {
			if _, err := find(controlPlaneName, "--nodes", "0"); err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer others.Wait()
	for reads := 0; ; reads++ {
		select {
		case <-stop:
			return
		default:
		}
		config, err := clientcmd.LoadFromFile(lab.Kubeconfig)
		require.NoError(t, err)
		require.NotEmpty(t, config.CurrentContext, "read %d found a part of the file", reads)
	}
}
