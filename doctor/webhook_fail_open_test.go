package doctor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// The API server counts what goes past a webhook that fails open, and doctor tells.
func TestFailOpenMetric(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	s := newState(t, lab)
	s.later = time.Hour
	s.send(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: NAMESPACE-hook}
webhooks:
- name: NAMESPACE.example.com
  clientConfig: {service: {name: gone, namespace: NAMESPACE}, caBundle: '{{CA ca}}'}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  failurePolicy: Ignore
  timeoutSeconds: 1
  sideEffects: None
  admissionReviewVersions: [v1]
`)
	require.NotContains(t, s.found(t), "metrics of the API server")
	require.Eventually(t, func() bool {
		_, err := lab.Clientset(t).CoreV1().ConfigMaps(s.namespace).Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(t, err)
		return strings.Contains(s.found(t), `read: metrics of the API server apiserver_admission_webhook_fail_open_count: `)
	}, 30*time.Second, 100*time.Millisecond)
}
