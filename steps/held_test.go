package steps_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// unanswered configures webhooks for the ConfigMaps of a namespace, whose Service does
// not exist.
func unanswered(t *testing.T, lab *labtest.Lab, ns string, names ...string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	none := admissionv1.SideEffectClassNone
	c := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	for _, name := range names {
		c.Webhooks = append(c.Webhooks, admissionv1.ValidatingWebhook{
			Name: name + ".example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:      admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: ns, Name: "nobody"}, CABundle: authority(t)},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}},
			ObjectSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{"judged-by": name}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.OperationAll},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		})
	}
	api := lab.Clientset(t).AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := api.Create(ctx, c, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = api.Delete(ctx, ns, metav1.DeleteOptions{}) })
}

// An object that is held has one name, whatever request is about it: Helm's patches do
// not say the kind.
func TestHeldObjectsAreNamedByTheirKind(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	chart := chartOf(t, map[string]string{"judged.yaml": `
apiVersion: v1
kind: ConfigMap
metadata: {name: judged, labels: {judged-by: a}}
data: {is: "{{ .Values.is }}"}
`})
	step := func(is string) string {
		return "\n- name: s\n  timeout: 3m\n  webhooks: {hold_timeout: 1s}\n  helm: {chart: " + chart + ", release: NS, namespace: NS, values: {is: " + is + "}}\n"
	}
	require.NoError(t, runPlan(t, lab, ns, step("one")).err)
	unanswered(t, lab, ns, "a")

	out := runPlan(t, lab, ns, step("two"))

	require.Error(t, out.err)
	require.NotEmpty(t, out.of(runner.TypeHeld))
	for _, e := range append(out.of(runner.TypeHeld), out.of(runner.TypeReleased)...) {
		require.Equal(t, "ConfigMap/"+ns+"/judged", e.Object)
	}
	require.ErrorContains(t, out.err, "ConfigMap/"+ns+"/judged")
}

// Steps that wait for one Service are all told how its webhooks stand, not only the
// one whose request leads.
func TestStepsThatWaitForOneServiceAreToldAlike(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	unanswered(t, lab, ns, "a", "b")
	object := func(name, by string) string {
		return "{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + ", namespace: NS, labels: {judged-by: " + by + "}}}"
	}
	out := runPlan(t, lab, ns, `
- {name: one, timeout: 3m, webhooks: {hold_timeout: 3s}, apply: {objects: [`+object("one", "a")+`]}}
- {name: two, timeout: 3m, webhooks: {hold_timeout: 3s}, apply: {objects: [`+object("two", "a")+`]}}
- {name: three, timeout: 3m, webhooks: {hold_timeout: 3s}, apply: {objects: [`+object("three", "b")+`, `+object("four", "a")+`]}}
`)
	require.Error(t, out.err)
	for step, names := range map[string][]string{"one": {"a.example.com"}, "two": {"a.example.com"}, "three": {"b.example.com", "a.example.com"}} {
		var told []string
		for _, w := range out.execution.Step(step).Webhooks {
			require.Equal(t, "routed", w.Rung)
			require.Contains(t, w.Cause, ns+"/nobody does not exist")
			told = append(told, w.Name)
		}
		require.ElementsMatch(t, names, told, step)
	}
}

// A guard that is found when its step has sent something is marked as late.
func TestGuardsOfStepsThatHaveSentAreLate(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	t.Cleanup(func() {
		api := lab.Clientset(t).AdmissionregistrationV1().ValidatingWebhookConfigurations()
		_ = api.Delete(context.WithoutCancel(t.Context()), ns, metav1.DeleteOptions{})
	})
	chart := chartOf(t, map[string]string{"hook.yaml": `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: ` + ns + `}
webhooks:
- name: v.example.com
  clientConfig: {url: "https://127.0.0.1:1/"}
  sideEffects: None
  admissionReviewVersions: [v1]
  failurePolicy: Ignore
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ` + ns + `}}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
`})
	p, err := load.Parse("plan.yaml", []byte(`
apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: test}
steps:
  - {name: hook, helm: {chart: `+chart+`, release: `+ns+`, namespace: `+ns+`}}
  - name: map
    needs: [hook]
    apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: `+ns+`}}]}
`), load.Options{})
	require.NoError(t, err)
	s, err := steps.New(t.Context(), steps.Config{Plan: p, Flags: lab.Flags(), UserAgent: "kplan-test"})
	require.NoError(t, err)
	defer s.Close()
	late := func() map[string]bool {
		out := map[string]bool{}
		for _, g := range s.Guards(t.Context()) {
			out[g.Step] = g.Late
		}
		return out
	}
	for _, step := range p.Steps {
		_, err := s.Resolve(step)
		require.NoError(t, err)
	}
	require.False(t, late()["map"], "nothing was sent")
	_, err = (&runner.Runner{Resolve: s.Resolve}).Run(t.Context(), p)
	require.NoError(t, err)
	require.True(t, late()["map"])
}
