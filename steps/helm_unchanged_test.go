package steps_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
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

// A step that is forced renders anew once, whatever did not change; after a
// failure it goes on with what it sent.
func TestHelmStepIsForced(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	parts := map[string]string{"later.yaml": "{{ if .Values.later }}" + later + "{{ end }}"}
	maps.Copy(parts, paired)
	dir := chartOf(t, parts)
	step := func(values string, force bool, watch ...runner.Observer) *run {
		return runSteps(t, lab, ns, "\n- name: s\n  retry: {install_retries: 2, retry_delay_seconds: 0.1}\n  helm: {chart: "+dir+
			", release: NS, namespace: NS, values: "+values+"}\n", steps.Config{ForceUpgrade: map[string]bool{"s": force}}, watch...)
	}
	id := func() string { // of the hook, which is sent before anything fails
		s, err := lab.Clientset(t).CoreV1().Secrets(ns).Get(t.Context(), "paired", metav1.GetOptions{})
		require.NoError(t, err)
		return string(s.Data["id"])
	}
	require.NoError(t, step("{}", false).err)
	first := id()
	require.Equal(t, runner.StateUnchanged, step("{}", false).execution.Step("s").State)

	forced := step("{}", true)

	require.NoError(t, forced.err)
	require.Equal(t, runner.StateSucceeded, forced.execution.Step("s").State)
	require.Equal(t, 2, forced.execution.Step("s").Revision)
	require.NotEqual(t, first, id(), "it is rendered anew")
	requirePaired(t, lab, ns)

	second := ""
	retried := step("{later: true}", true, observer(func(e runner.Event) {
		if e.State == runner.StateRetrying {
			second = id()
			makeLater(t, lab, ns)
		}
	}))
	require.NoError(t, retried.err)
	require.Equal(t, 4, retried.execution.Step("s").Revision)
	require.Equal(t, second, id(), "the second attempt sends what the first one did")
	requirePaired(t, lab, ns)
}
