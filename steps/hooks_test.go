package steps_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// hook is a webhook of a test, which guards ConfigMaps in the test's namespace.
type hook struct {
	name     string
	mutating bool
	// does is the path of its URL, and says what it does: see answering.
	does    string
	policy  registrationv1.FailurePolicyType
	effects registrationv1.SideEffectClass
}

// webhooks is a server for the webhooks of a test.
type webhooks struct {
	*httptest.Server
	calls atomic.Int64
	// broken says which calls are not answered, counted from 1; nil for none.
	broken func(call int64) bool
}

func newWebhooks(t *testing.T) *webhooks {
	t.Helper()
	w := &webhooks{}
	w.Server = httptest.NewTLSServer(w)
	t.Cleanup(func() {
		w.CloseClientConnections() // the API server keeps its connections
		w.Close()
	})
	return w
}

// ServeHTTP answers an AdmissionReview, or a ConversionReview.
func (w *webhooks) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	n := w.calls.Add(1)
	body, err := io.ReadAll(req.Body)
	if err != nil || w.broken != nil && w.broken(n) {
		http.Error(rw, "broken", http.StatusInternalServerError)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	if req.URL.Path == "/convert" {
		_ = json.NewEncoder(rw).Encode(converted(body))
		return
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	review.Response = answering(path.Base(req.URL.Path), review.Request)
	review.Response.UID, review.Request = review.Request.UID, nil
	_ = json.NewEncoder(rw).Encode(review)
}

// answering says how webhooks answer: "deny" denies objects with the label
// bad, "mutate" adds the label made, the rest allow.
func answering(does string, req *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	var u unstructured.Unstructured
	_ = json.Unmarshal(req.Object.Raw, &u.Object)
	r := &admissionv1.AdmissionResponse{Allowed: true}
	switch {
	case does == "deny" && u.GetLabels()["bad"] != "":
		r.Allowed, r.Result = false, &metav1.Status{Message: "bad objects are denied"}
	case does == "mutate":
		kind := admissionv1.PatchTypeJSONPatch
		r.PatchType, r.Patch = &kind, []byte(`[{"op": "add", "path": "/metadata/annotations", "value": {"made": "yes"}}]`)
	}
	return r
}

// converted answers a ConversionReview: only the version changes.
func converted(body []byte) map[string]any {
	var review struct {
		APIVersion string `json:"apiVersion"`
		Request    struct {
			UID     string           `json:"uid"`
			Version string           `json:"desiredAPIVersion"`
			Objects []map[string]any `json:"objects"`
		} `json:"request"`
	}
	_ = json.Unmarshal(body, &review)
	for _, o := range review.Request.Objects {
		o["apiVersion"] = review.Request.Version
	}
	return map[string]any{"apiVersion": review.APIVersion, "kind": "ConversionReview", "response": map[string]any{
		"uid": review.Request.UID, "result": map[string]any{"status": "Success"}, "convertedObjects": review.Request.Objects,
	}}
}

func (w *webhooks) client(does string) registrationv1.WebhookClientConfig {
	url := w.URL + "/" + does
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.Certificate().Raw})
	return registrationv1.WebhookClientConfig{URL: &url, CABundle: ca}
}

// configure makes a configuration of validating webhooks and one of mutating
// webhooks, of one name, as far as there are any.
func (w *webhooks) configure(t *testing.T, lab *labtest.Lab, ns, name string, hooks ...hook) {
	t.Helper()
	api := lab.Clientset(t).AdmissionregistrationV1()
	rules := []registrationv1.RuleWithOperations{{
		Operations: []registrationv1.OperationType{registrationv1.Create},
		Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}}
	meta := metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": name}}
	validating := &registrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta}
	mutating := &registrationv1.MutatingWebhookConfiguration{ObjectMeta: meta}
	for _, h := range hooks {
		if h.effects == "" {
			h.effects = registrationv1.SideEffectClassNone
		}
		if h.policy == "" {
			h.policy = registrationv1.Fail
		}
		if h.mutating {
			mutating.Webhooks = append(mutating.Webhooks, registrationv1.MutatingWebhook{
				Name: h.name, FailurePolicy: &h.policy, SideEffects: &h.effects, Rules: rules, ClientConfig: w.client(h.does),
				NamespaceSelector: selector, AdmissionReviewVersions: []string{"v1"},
			})
			continue
		}
		validating.Webhooks = append(validating.Webhooks, registrationv1.ValidatingWebhook{
			Name: h.name, FailurePolicy: &h.policy, SideEffects: &h.effects, Rules: rules, ClientConfig: w.client(h.does),
			NamespaceSelector: selector, AdmissionReviewVersions: []string{"v1"},
		})
	}
	if len(validating.Webhooks) > 0 {
		_, err := api.ValidatingWebhookConfigurations().Create(t.Context(), validating, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			_ = api.ValidatingWebhookConfigurations().Delete(context.Background(), name, metav1.DeleteOptions{})
		})
	}
	if len(mutating.Webhooks) > 0 {
		_, err := api.MutatingWebhookConfigurations().Create(t.Context(), mutating, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			_ = api.MutatingWebhookConfigurations().Delete(context.Background(), name, metav1.DeleteOptions{})
		})
	}
}

// awaitCall waits until the API server knows the webhooks of ns and calls them, and
// counts calls anew: it admits objects unasked before.
func (w *webhooks) awaitCall(t *testing.T, lab *labtest.Lab, ns string) {
	t.Helper()
	maps := lab.Clientset(t).CoreV1().ConfigMaps(ns)
	require.Eventually(t, func() bool {
		_, _ = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return w.calls.Load() > 0
	}, time.Minute, 20*time.Millisecond)
	w.calls.Store(0)
}

// files writes files into a folder, which it returns; NS in them stands for the
// test's namespace.
func files(t *testing.T, ns string, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(text, "NS", ns)), 0o600))
	}
	return dir
}
