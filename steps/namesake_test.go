package steps_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// cert-manager's mutating and validating webhooks have one name, in configurations of
// one name: people and programs are told which is which.
func TestWebhooksOfOneNameAreToldApart(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	namesakes(t, lab, ns)

	out := runPlan(t, lab, ns, `
- {name: gate, timeout: 3s, webhook: {configuration: NS}}
`)
	require.ErrorContains(t, out.err, `ting webhook "same.example.com" of `+ns, "mutating, or validating")
	require.Len(t, out.execution.Step("gate").Webhooks, 2)
}

// What cannot be shown of a webhook names its rules and what was tried.
func TestUnprovenNamesTheRule(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	url, none, ctx := "https://127.0.0.1:1/nobody", admissionv1.SideEffectClassNone, t.Context()
	api := lab.Clientset(t).AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := api.Create(ctx, &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ns + "-approval"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "approval.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionv1.WebhookClientConfig{URL: &url, CABundle: authority(t)},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{ns + ".example.com"}, APIVersions: []string{"v1"}, Resources: []string{"requests", "requests/status"}},
			}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = api.Delete(context.WithoutCancel(ctx), ns+"-approval", metav1.DeleteOptions{}) })

	out := runPlan(t, lab, ns, `
- {name: gate, timeout: 2m, webhook: {configuration: NS-approval}}
`)
	require.NoError(t, out.err)
	require.Equal(t, "0 of 1 webhooks admit (validating approval.example.com unproven: "+
		"it is called for UPDATE of requests."+ns+".example.com and requests."+ns+".example.com/status, and a dry run can only create)", out.execution.Step("gate").Message)
}

// namesakes makes a mutating and a validating webhook of one name, at a Service that
// does not exist.
func namesakes(t *testing.T, lab *labtest.Lab, ns string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	none := admissionv1.SideEffectClassNone
	client := admissionv1.WebhookClientConfig{
		Service: &admissionv1.ServiceReference{Namespace: ns, Name: "nobody"}, CABundle: authority(t),
	}
	rules := []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule:       admissionv1.Rule{APIGroups: []string{ns + ".example.com"}, APIVersions: []string{"v1"}, Resources: []string{"requests"}},
	}}
	api := lab.Clientset(t).AdmissionregistrationV1()
	_, err := api.MutatingWebhookConfigurations().Create(ctx, &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: "same.example.com", ClientConfig: client, SideEffects: &none, AdmissionReviewVersions: []string{"v1"}, Rules: rules,
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = api.MutatingWebhookConfigurations().Delete(ctx, ns, metav1.DeleteOptions{}) })
	_, err = api.ValidatingWebhookConfigurations().Create(ctx, &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "same.example.com", ClientConfig: client, SideEffects: &none, AdmissionReviewVersions: []string{"v1"}, Rules: rules,
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = api.ValidatingWebhookConfigurations().Delete(ctx, ns, metav1.DeleteOptions{}) })
}
