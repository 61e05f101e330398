package steps_test

import (
	"context"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// paired is a chart part that makes one value by chance and has it in a hook and
// in a template, as charts do that keep a certificate in a hook's Secret and its
// CA in a webhook configuration.
var paired = map[string]string{"paired.yaml": `{{ $id := randAlphaNum 12 }}
apiVersion: v1
kind: Secret
metadata: {name: paired, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}
stringData: {id: {{ $id }}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: paired}
data: {id: {{ $id }}}
`}

// later is a chart part that fails until its namespace is there, without any
// change of the chart or its values.
const later = `
apiVersion: v1
kind: ConfigMap
metadata: {name: later, namespace: {{ .Release.Namespace }}-later}
`

// makeLater makes the namespace that the part later fails for.
func makeLater(t *testing.T, lab *labtest.Lab, ns string) {
	t.Helper()
	namespaces := lab.Clientset(t).CoreV1().Namespaces()
	_, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns + "-later"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = namespaces.Delete(context.Background(), ns+"-later", metav1.DeleteOptions{}) })
}

// requirePaired requires that the hook and the template are of one render.
func requirePaired(t *testing.T, lab *labtest.Lab, ns string) {
	t.Helper()
	core := lab.Clientset(t).CoreV1()
	secret, err := core.Secrets(ns).Get(t.Context(), "paired", metav1.GetOptions{})
	require.NoError(t, err)
	m, err := core.ConfigMaps(ns).Get(t.Context(), "paired", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, m.Data["id"], string(secret.Data["id"]))
}

// What is sent again is the whole revision: what a hook has and what a template
// has still fit together.
func TestHelmStepSendsHooksAgainAsRendered(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	parts := map[string]string{"later.yaml": "{{ if .Values.later }}" + later + "{{ end }}"}
	maps.Copy(parts, paired)
	dir := chartOf(t, parts)
	step := func(ns, values string) *run {
		return runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, values: "+values+"}\n")
	}

	t.Run("objects are gone", func(t *testing.T) {
		ns := lab.Namespace(t)
		require.NoError(t, step(ns, "{}").err)
		requirePaired(t, lab, ns)
		require.NoError(t, lab.Clientset(t).CoreV1().ConfigMaps(ns).Delete(t.Context(), ns+"-settings", metav1.DeleteOptions{}))

		again := step(ns, "{}")

		require.NoError(t, again.err)
		require.Equal(t, 2, again.execution.Step("s").Revision)
		requirePaired(t, lab, ns)
	})
	t.Run("an upgrade failed", func(t *testing.T) {
		ns := lab.Namespace(t)
		require.NoError(t, step(ns, "{}").err)
		require.ErrorContains(t, step(ns, "{later: true}").err, ns+"-later")
		makeLater(t, lab, ns)

		again := step(ns, "{later: true}")

		require.NoError(t, again.err)
		require.Equal(t, 3, again.execution.Step("s").Revision)
		requirePaired(t, lab, ns)
		history, err := helmOf(t, lab, ns).Releases.History(ns)
		require.NoError(t, err)
		require.Len(t, history, 3)
		for _, r := range history {
			require.Len(t, r.Hooks, 1, "the record has the hooks that were run")
			require.Contains(t, r.Hooks[0].Manifest, "paired")
			require.NotEmpty(t, r.Chart.Templates, "and the chart")
		}
	})
}
