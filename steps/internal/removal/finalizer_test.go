package removal

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kplan-dev/kplan/steps/internal/cluster"
)

// A finalizer is given up only if it is known who put it there, and that nobody runs
// that: whoever takes it away by force leaves behind what it stands for.
func TestHopeless(t *testing.T) {
	t.Parallel()
	const finalizer = "example.io/clean-up"
	deployment := func(program string, replicas int32) *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "front"},
			Spec: appsv1.DeploymentSpec{
				Replicas: &replicas,
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Command: []string{"/bin/" + program}}}}},
			},
		}
	}
	configMaps := &meta.RESTMapping{
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
	}
	widgets := &meta.RESTMapping{
		Resource:         schema.GroupVersionResource{Group: "example.io", Version: "v1", Resource: "widgets"},
		GroupVersionKind: schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Widget"},
	}
	for name, tt := range map[string]struct {
		mapping *meta.RESTMapping // default configMaps
		manager string            // that put the finalizer there
		runs    []runtime.Object
		refused string // lists of these are
		why     string // "" for a finalizer that is waited for
	}{
		"its controller is scaled to 0": {
			manager: "shop", runs: []runtime.Object{deployment("shop", 0)},
			why: "finalizer example.io/clean-up is for Deployment ops/front to take away, which is scaled to 0",
		},
		"its controller runs": {manager: "shop", runs: []runtime.Object{deployment("shop", 1)}},
		"nobody runs its controller": {
			manager: "shop", runs: []runtime.Object{deployment("other", 1)},
			why: "finalizer example.io/clean-up stays: shop, which put it there, is run by no workload of the cluster",
		},
		"it came with the manifest":                        {manager: "kubectl-create", runs: []runtime.Object{deployment("other", 1)}},
		"many programs have that name":                     {manager: "manager", runs: []runtime.Object{deployment("other", 1)}},
		"one of many programs of that name is scaled to 0": {manager: "manager", runs: []runtime.Object{deployment("manager", 0)}},
		"Deployments cannot be read":                       {manager: "shop", refused: "deployments"},
		"StatefulSets cannot be read":                      {manager: "shop", refused: "statefulsets"},
		"DaemonSets cannot be read":                        {manager: "shop", refused: "daemonsets"},
		"some of them cannot be read":                      {manager: "shop", runs: []runtime.Object{deployment("shop", 0)}, refused: "daemonsets"},
		"its kind's definition cannot be read":             {mapping: widgets, manager: "shop"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(tt.runs...)
			client.PrependReactor("list", tt.refused, func(clienttesting.Action) (bool, runtime.Object, error) {
				return tt.refused != "", nil, errors.New("refused")
			})
			session := &cluster.Session{Cluster: cluster.Unconnected("default"), Clientset: client}
			b := newBlocks(&Remover{Session: session}, nil)
			u := &unstructured.Unstructured{Object: map[string]any{}}
			u.SetFinalizers([]string{finalizer})
			u.SetDeletionTimestamp(&metav1.Time{Time: time.Now().Add(-2 * benefit)})
			u.SetManagedFields([]metav1.ManagedFieldsEntry{{
				Manager: tt.manager, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:finalizers":{"v:\"` + finalizer + `\"":{}}}}`),
			}})
			if tt.mapping == nil {
				tt.mapping = configMaps
			}

			gone, why := b.hopeless(t.Context(), Object{Unstructured: u, Mapping: tt.mapping}, []string{finalizer})

			require.Equal(t, tt.why, why)
			require.Equal(t, tt.why != "", len(gone) > 0)
		})
	}
}
