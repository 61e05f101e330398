package steps_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/diff"
)

// A webhook step ends when the webhooks of a release answer, not when their
// pod says that it is ready.
func TestWebhookStepWaitsForAnswers(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	ns := lab.Namespace(t)

	out := runPlan(t, lab, ns, `
- name: operator
  helm:
    chart: CHARTS/race
    release: NS
    namespace: NS
    values: {listenDelay: 8s, operator: {lyingHealth: true}, guarded: {gadgets: 0, widgets: 0}}
- name: gate
  needs: [operator]
  timeout: 3m
  webhook: {release: NS, stable: 3}
`)

	require.NoError(t, out.err)
	require.Equal(t, "2 of 2 webhooks admit", out.execution.Step("gate").Message)
	require.NotEmpty(t, out.of(runner.TypeHeld), "the probe was held, since the pod lied")
	for _, e := range out.of(runner.TypeHeld) {
		require.Equal(t, "gate", e.Step)
		require.Contains(t, e.Object, "/kplan-probe-")
	}

	found := diffOf(t, lab, ns, "\n- name: s\n  webhook: {configuration: NS-validate, stable: 1000}\n")
	require.Equal(t, diff.Unchanged, found.State, "a diff asks once: %s", found.Message)
}

// What a dry run cannot show is told, and not claimed.
func TestWebhookStepSaysWhatItCannotProve(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	ignore, none := admissionv1.Ignore, admissionv1.SideEffectClassNone
	fail, url := admissionv1.Fail, "https://127.0.0.1:1/nobody"
	rule := []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}}
	// No object has this label: the webhooks harm no other test.
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"kplan.dev/test-only": ns}}
	client := admissionv1.WebhookClientConfig{URL: &url, CABundle: authority(t)}
	entry := func(name string, policy *admissionv1.FailurePolicyType, effects *admissionv1.SideEffectClass) admissionv1.ValidatingWebhook {
		return admissionv1.ValidatingWebhook{
			Name: name, FailurePolicy: policy, SideEffects: effects, Rules: rule, ClientConfig: client,
			NamespaceSelector: selector, AdmissionReviewVersions: []string{"v1"},
		}
	}
	api := lab.Clientset(t).AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := api.Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Webhooks: []admissionv1.ValidatingWebhook{
			entry("ignored.example.io", &ignore, &none),
			entry("unselected.example.io", &fail, &none),
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = api.Delete(context.Background(), ns, metav1.DeleteOptions{}) })

	out := runPlan(t, lab, ns, `
- name: gate
  timeout: 2m
  webhook: {configuration: NS}
`)

	require.NoError(t, out.err)
	message := out.execution.Step("gate").Message
	require.Contains(t, message, "0 of 2 webhooks admit")
	require.Contains(t, message, "ignored.example.io unproven: failurePolicy Ignore")
	require.Contains(t, message, "unselected.example.io unproven: no namespace matches its namespaceSelector")
}

// A configuration that never comes ends the step within its bound.
func TestWebhookStepTimesOut(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)

	out := runPlan(t, lab, lab.Namespace(t), `
- name: gate
  timeout: 5s
  webhook: {configuration: NS}
`)

	var timeout *runner.TimeoutError
	require.ErrorAs(t, out.err, &timeout)
	require.ErrorContains(t, out.err, "to be configured")
}

// authority makes a CA certificate that is in force.
func authority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	now := time.Now()
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Without the hold the step asks again by itself.
func TestWebhookStepWithoutHold(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	ns := lab.Namespace(t)

	out := runPlan(t, lab, ns, `
- name: operator
  helm:
    chart: CHARTS/race
    release: NS
    namespace: NS
    values: {listenDelay: 4s, operator: {lyingHealth: true}, guarded: {gadgets: 0, widgets: 0}}
- name: gate
  needs: [operator]
  timeout: 3m
  webhooks: {hold: false}
  webhook: {release: NS}
`)

	require.NoError(t, out.err)
	require.Empty(t, out.of(runner.TypeHeld))
	require.Equal(t, "2 of 2 webhooks admit", out.execution.Step("gate").Message)
}

// A webhook that may be ignored passes everything until it answers; only what it
// denies and changes shows that it does. It is found by its Service.
func TestCanariesWaitForAWebhookThatMayBeIgnored(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	ns := lab.Namespace(t)
	dir := files(t, ns, map[string]string{
		"deny.yaml":   "{apiVersion: lab.kplan.dev/v1, kind: Widget, metadata: {name: deny, namespace: NS}, spec: {deny: true}}",
		"widget.yaml": "{apiVersion: lab.kplan.dev/v1, kind: Widget, metadata: {name: widget, namespace: NS}, spec: {width: 1}}",
	})

	out := runPlan(t, lab, ns, `
- name: operator
  helm:
    chart: CHARTS/race
    release: NS
    namespace: NS
    values: {listenDelay: 5s, webhook: {failurePolicy: Ignore}, operator: {lyingHealth: true}, guarded: {gadgets: 0, widgets: 0}}
- name: gate
  needs: [operator]
  timeout: 3m
  webhook:
    service: NS/NS-webhook
    stable: 2
    canary: {deny: [`+dir+`/deny.yaml], mutate: [{file: `+dir+`/widget.yaml, expect: 'object.spec.tier == "standard"'}]}
`)

	require.NoError(t, out.err)
	require.Equal(t, "2 of 2 webhooks admit", out.execution.Step("gate").Message)
	require.Empty(t, out.of(runner.TypeHeld), "nothing is held that is let pass")
	told := out.of(runner.TypeWebhook)
	require.NotEmpty(t, told)
	require.Equal(t, "admitting waiting", told[0].Webhook.Rung+" "+told[0].Webhook.State)
	last := told[len(told)-1].Webhook
	require.Equal(t, "admitting ready", last.Rung+" "+last.State)
	require.Equal(t, "Helm release "+ns+"/"+ns, last.Owner)
}
