package steps_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	reviewv1 "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// guardMaps makes a webhook that guards the ConfigMaps of ns, called by client.
func guardMaps(t *testing.T, lab *labtest.Lab, ns string, client admissionv1.WebhookClientConfig) *admissionv1.ValidatingWebhookConfiguration {
	t.Helper()
	none, seconds := admissionv1.SideEffectClassNone, int32(2)
	api := lab.Clientset(t).AdmissionregistrationV1().ValidatingWebhookConfigurations()
	c, err := api.Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ns + "-old", Annotations: map[string]string{
			"meta.helm.sh/release-name": "old", "meta.helm.sh/release-namespace": "elsewhere",
		}},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "maps.old.example.io", ClientConfig: client, SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: &seconds,
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.OperationAll},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"guarded": "yes"}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = api.Delete(context.Background(), c.Name, metav1.DeleteOptions{}) })
	return c
}

// guardedMap is a step that applies a ConfigMap which guardMaps's webhook guards.
const guardedMap = `
- name: map
  retry: {install_retries: 1}
  webhooks: {hold_timeout: TIMEOUT}
  apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: NS, labels: {guarded: "yes"}}}]}
`

func holdFor(timeout string) string { return strings.ReplaceAll(guardedMap, "TIMEOUT", timeout) }

// reachable is how an API server on this machine calls a server of the test.
func reachable(s *httptest.Server) admissionv1.WebhookClientConfig {
	return admissionv1.WebhookClientConfig{
		URL: &s.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
	}
}

// webhookServer answers admission reviews as answer says, until the test ends.
func webhookServer(t *testing.T, answer func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review reviewv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "no AdmissionReview", http.StatusBadRequest)
			return
		}
		review.Response = answer(review.Request)
		review.Response.UID = review.Request.UID
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections() // the API server keeps its connections
		s.Close()
	})
	return s
}

// A webhook that somebody left behind stops the step within its bound, and the
// message names owner, rung and remedy.
func TestAStaleWebhookOfAnotherOwner(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	nobody := reachable(webhookServer(t, nil))
	c := guardMaps(t, lab, ns, admissionv1.WebhookClientConfig{
		Service: &admissionv1.ServiceReference{Namespace: "gone", Name: "old"}, CABundle: nobody.CABundle,
	})

	began := time.Now()
	run := runPlan(t, lab, ns, holdFor("3s"))

	require.Less(t, time.Since(began), 25*time.Second)
	var timeout *runner.TimeoutError
	require.ErrorAs(t, run.err, &timeout)
	require.ErrorContains(t, run.err, `webhook "maps.old.example.io" (Service gone/old) to judge ConfigMap/`+ns+`/m: service "old" not found`)
	require.ErrorContains(t, run.err, "routed: Service gone/old does not exist")
	require.ErrorContains(t, run.err, "it belongs to Helm release elsewhere/old, which this plan does not install")
	require.Contains(t, runner.HintOf(run.err), "kubectl delete validatingwebhookconfiguration "+c.Name)
	stands := run.of(runner.TypeWebhook)
	require.NotEmpty(t, stands, "what it lacks is told while it is waited for")
	require.Equal(t, "routed", stands[0].Webhook.Rung)
}

// The API server restarts while a request is held, and the webhook goes away:
// the request is admitted all the same, in one attempt.
func TestHoldSurvivesARestartOfTheAPIServer(t *testing.T) {
	t.Parallel()
	lab := labtest.Own(t, "test-restart")
	ns := lab.Namespace(t)
	url := "https://127.0.0.1:1/nobody-listens"
	c := guardMaps(t, lab, ns, admissionv1.WebhookClientConfig{URL: &url})

	over := make(chan *run, 1)
	go func() { over <- runPlan(t, lab, ns, holdFor("2m")) }()
	require.Eventually(t, func() bool { // it was called, so that something is held
		raw, err := lab.Clientset(t).Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		return err == nil && strings.Contains(string(raw), `apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error"`)
	}, time.Minute, 50*time.Millisecond)
	lab.Restart(t, "kube-apiserver")
	require.NoError(t, lab.Clientset(t).AdmissionregistrationV1().ValidatingWebhookConfigurations().
		Delete(t.Context(), c.Name, metav1.DeleteOptions{}))

	run := <-over
	require.NoError(t, run.err)
	require.Equal(t, 1, run.execution.Step("map").Attempt)
	require.NotEmpty(t, run.of(runner.TypeHeld))
}

// A denial is an answer: it fails the step at once, with the webhook's own
// words, and is sent once.
func TestADenialIsNeverHeld(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	var calls atomic.Int32
	guardMaps(t, lab, ns, reachable(webhookServer(t, func(*reviewv1.AdmissionRequest) *reviewv1.AdmissionResponse {
		calls.Add(1)
		return &reviewv1.AdmissionResponse{Result: &metav1.Status{
			Message: `no: Internal error occurred: failed calling webhook "v.example.io": connection refused`, Code: http.StatusInternalServerError,
		}}
	})))

	run := runPlan(t, lab, ns, holdFor("2m"))

	require.ErrorContains(t, run.err, `admission webhook "maps.old.example.io" denied the request: no: Internal error occurred`)
	require.Empty(t, run.of(runner.TypeHeld))
	require.EqualValues(t, 1, calls.Load())
}
