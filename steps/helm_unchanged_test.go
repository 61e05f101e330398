package steps_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// An umbrella chart that nobody changed is left alone, whatever the order in
// which its subcharts are read: a new revision would bring new certificates
// under the webhooks that run.
func TestHelmStepLeavesAnUmbrellaAlone(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	want := runner.StateSucceeded
	for range 6 {
		out := runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: CHARTS/umbrella, release: NS, namespace: NS}\n")

		require.NoError(t, out.err)
		require.Equal(t, want, out.execution.Step("s").State)
		require.Equal(t, 1, out.execution.Step("s").Revision)
		want = runner.StateUnchanged
	}
}

// A step that made a revision is not unchanged because a later attempt had
// nothing more to do.
func TestHelmStepChangedInAnEarlierAttempt(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	var made error
	late := observer(func(e runner.Event) {
		if e.State == runner.StateRetrying {
			_, made = lab.Clientset(t).CoreV1().ConfigMaps(ns).Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Data: map[string]string{"a": "b"}}, metav1.CreateOptions{})
		}
	})

	out := runPlan(t, lab, ns, `
- name: s
  retry: {install_retries: 2, retry_delay_seconds: 0.1}
  helm: {chart: CHARTS/umbrella, release: NS, namespace: NS}
  outputs: {a: {resource: configmap/late, namespace: NS, jsonpath: "{.data.a}"}}
`, late)

	require.NoError(t, made)
	require.NoError(t, out.err)
	require.Equal(t, 2, out.execution.Step("s").Attempt)
	require.Equal(t, 1, out.execution.Step("s").Revision)
	require.Equal(t, runner.StateSucceeded, out.execution.Step("s").State)
}
