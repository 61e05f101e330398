package steps_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
	"github.com/kplan-dev/kplan/steps/diff"
)

const pruned = `
- name: s
  apply:
    namespace: NS
    prune: true
    objects:
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: "1", b: "2"}}
`

// What an apply step would change, prune and be refused is told with who has set it,
// and nothing is written.
func TestDiffOfAnApplyStep(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	more := pruned + "    - {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n"
	require.Equal(t, []diff.Action{diff.Create, diff.Create}, actions(diffOf(t, lab, ns, more)))
	require.NoError(t, runPlan(t, lab, ns, more).err)
	require.Empty(t, diffOf(t, lab, ns, more).Objects)

	maps := lab.Clientset(t).CoreV1().ConfigMaps(ns)
	_, err := maps.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data": {"a": "hand", "c": "3"}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"})
	require.NoError(t, err)
	found := diffOf(t, lab, ns, pruned)

	require.Equal(t, diff.Fails, found.State)
	require.Equal(t, []diff.Action{diff.Change, diff.Delete}, actions(found))
	require.True(t, found.Objects[0].Drift)
	require.Equal(t, []diff.Field{{Path: "data.a", Before: "hand", After: "1", Manager: "kubectl-edit"}}, found.Objects[0].Fields)
	require.Contains(t, found.Objects[0].Error, `conflict with "kubectl-edit"`)
	_, err = maps.Get(t.Context(), "b", metav1.GetOptions{})
	require.NoError(t, err, "nothing is written")
}

// Objects whose webhook does not answer yet are shown by their manifests alone.
func TestDiffBeforeAWebhookAnswers(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	deaf := lab.Clientset(t).AdmissionregistrationV1().ValidatingWebhookConfigurations()
	none, path := admissionv1.SideEffectClassNone, "/"
	_, err := deaf.Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "deaf.example.io", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:      admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: ns, Name: "absent", Path: &path}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = deaf.Delete(context.Background(), ns, metav1.DeleteOptions{}) })
	dir := chartOf(t, nil)
	for _, step := range []string{
		"\n- name: s\n  helm: {chart: " + dir + ", release: NS, namespace: NS}\n",
		"\n- name: s\n  apply: {namespace: NS, objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}]}\n",
	} {
		var found diff.Step
		require.Eventually(t, func() bool { // the API server knows a configuration after a moment
			found = diffOf(t, lab, ns, step)
			return found.Objects[0].ClientSide != ""
		}, time.Minute, 100*time.Millisecond)

		require.Equal(t, diff.Changes, found.State, found.Message)
		require.Equal(t, "webhook deaf.example.io does not answer yet", found.Objects[0].ClientSide)
		require.Empty(t, found.Objects[0].Error)
		require.Contains(t, found.Objects[0].After, "kind: ConfigMap")
	}
}

func actions(s diff.Step) []diff.Action {
	var all []diff.Action
	for _, o := range s.Objects {
		all = append(all, o.Action)
	}
	return all
}

// diffOf is what a run of the step s would change.
func diffOf(t *testing.T, lab *labtest.Lab, ns, text string) diff.Step {
	t.Helper()
	s, err := steps.New(t.Context(), steps.Config{Plan: planOf(t, lab, ns, text), Flags: lab.Flags(), UserAgent: "kplan-test"})
	require.NoError(t, err)
	defer s.Close()
	d, err := s.Diff(t.Context(), runner.DefaultParallel, func(diff.Step) {})
	require.NoError(t, err)
	require.NotNil(t, d.Of("s"))
	return *d.Of("s")
}
