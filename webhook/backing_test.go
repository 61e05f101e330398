package webhook

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// Where a Service selects no pods, what should make them says why.
func TestIdle(t *testing.T) {
	maker := func(name string, replicas int32, failure string) Workload {
		return Workload{Object{Kind: "Deployment", Namespace: "ns", Name: name}, replicas, failure}
	}
	for want, makers := range map[string][]Workload{
		"no pod has the labels that the Service selects":                                nil,
		"Deployment a is scaled to 0":                                                   {maker("a", 0, "")},
		"Deployment b is scaled to 0":                                                   {maker("a", 1, ""), maker("b", 0, "")},
		"Deployment a has made no pod yet":                                              {maker("a", 2, "")},
		`Deployment a cannot make its pods: pods "a-1" is forbidden: exceeded quota: q`: {maker("a", 1, `pods "a-1" is forbidden: exceeded quota: q`)},
	} {
		b := &Backing{Service: &corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "a"}}}, Workloads: makers}
		why, from, _ := b.unreadyReason()
		require.Equal(t, want, why)
		require.Equal(t, makers == nil, from == Object{})
		require.NotEmpty(t, Explain("no endpoints; "+why))
	}
}
