package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kplan-dev/kplan/steps/internal/engine"
)

func TestDeleteRecord(t *testing.T) {
	rel := &engine.Release{Name: "app", Namespace: "default", Version: 1, Info: &engine.Info{Status: engine.StatusUninstalled}}
	key := engine.Key(rel.Name, rel.Version)

	t.Run("that is there", func(t *testing.T) {
		client := fake.NewClientset()
		records := engine.Secrets{Client: client.CoreV1().Secrets(rel.Namespace)}.Records()
		require.NoError(t, records.Create(key, rel))
		was, err := records.Delete(key)
		require.NoError(t, err)
		require.Equal(t, rel.Name, was.Name)
		_, err = records.Get(key)
		require.ErrorIs(t, err, engine.ErrNotFound)
	})

	t.Run("that is not there", func(t *testing.T) {
		records := engine.Secrets{Client: fake.NewClientset().CoreV1().Secrets(rel.Namespace)}.Records()
		_, err := records.Delete(key)
		require.ErrorIs(t, err, engine.ErrNotFound)
	})

	// A request that was carried out and answered with an error is sent again, and the
	// second answer is that there is no such Secret.
	t.Run("that the first of two requests deleted", func(t *testing.T) {
		client := fake.NewClientset()
		records := engine.Secrets{Client: client.CoreV1().Secrets(rel.Namespace)}.Records()
		require.NoError(t, records.Create(key, rel))
		client.PrependReactor("delete", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			all := client.Tracker()
			gvr := metav1.SchemeGroupVersion.WithResource("secrets")
			gvr.Group = ""
			require.NoError(t, all.Delete(gvr, rel.Namespace, key))
			return true, nil, apierrors.NewNotFound(gvr.GroupResource(), key)
		})
		was, err := records.Delete(key)
		require.NoError(t, err)
		require.Equal(t, rel.Name, was.Name)
	})
}
