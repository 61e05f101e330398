package cluster

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/lab/internal/pki"
)

// Programs read a kubeconfig while a lab is made anew: they find the old one or
// the new one, never a part.
func TestKubeconfigIsWrittenWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	write := func() error {
		return writeKubeconfig("lab", path, "https://127.0.0.1:1", "admin", make([]byte, 4096), pki.Pair{})
	}
	require.NoError(t, write())
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	var writer sync.WaitGroup
	stop := make(chan struct{})
	writer.Go(func() {
		defer close(stop)
		for range 2000 {
			if err := write(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer writer.Wait()
	for {
		select {
		case <-stop:
			return
		default:
		}
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, len(want), len(got), "a part of the file")
	}
}
