//go:build unix

package main

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// Of webhooks that all are as they should be, --failing says so: that there are
// none would be something else.
func TestWebhooksFailingNone(t *testing.T) {
	lab := labtest.ControlPlane(t)
	t.Setenv("KUBECONFIG", lab.Kubeconfig)
	name := lab.Namespace(t)
	none := admissionv1.SideEffectClassNone
	configurations := lab.Clientset(t).AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := configurations.Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "policy.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://policy.example.com/judge")},
			SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{name + ".example.com"}, APIVersions: []string{"v1"}, Resources: []string{"none"}},
			}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = configurations.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}) })

	stderr := &strings.Builder{}
	list := command(t, "webhooks", "--failing", name)
	list.Stderr = stderr
	out, err := list.Output()
	require.NoError(t, err)
	require.Equal(t, "1 webhook, nothing that was read keeps any from answering\n", string(out))
	require.Empty(t, stderr.String())
}
