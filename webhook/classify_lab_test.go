package webhook_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/webhook"
)

// controlPlane is a lab whose API server can call webhooks of the test's own.
func controlPlane(t *testing.T) *labtest.Lab {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server")
	}
	lab := labtest.ControlPlane(t)
	if os.Getenv(labtest.KubeconfigEnv) != "" {
		t.Skip("the API server cannot call this process; " + labtest.KubeconfigEnv + " is set")
	}
	return lab
}

// serve is a webhook at a URL of this machine, with the CA bundle for it.
func serve(t *testing.T, h http.HandlerFunc) (url string, bundle []byte) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes are meant to fail
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// certificate is one that has signed nothing.
func certificate(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// What a real API server says of a webhook is read from the error that its
// client gets.
func TestClassifyAdmission(t *testing.T) {
	lab := controlPlane(t)
	client := lab.Clientset(t)
	respond := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, body, code) }
	}
	deny := func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{
			Code: 500, Reason: metav1.StatusReasonInternalError,
			Message: `Internal error occurred: failed calling webhook "x": failed to call webhook: EOF`,
		}}
		_ = json.NewEncoder(w).Encode(review)
	}
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then is a client that leaves seen
		<-r.Context().Done()
	}
	for name, tc := range map[string]struct {
		serve  http.HandlerFunc // nobody listens when nil
		bundle []byte           // in place of the right one
		want   webhook.Class
		cause  string
	}{
		"nobody listens":           {want: webhook.Race, cause: "connection refused"},
		"an unknown authority":     {serve: deny, bundle: certificate(t), want: webhook.Race, cause: "unknown authority"},
		"a placeholder for the CA": {serve: deny, bundle: []byte("\n"), want: webhook.Race, cause: "unable to parse bytes as PEM block"},
		"it aborts":                {serve: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, want: webhook.Race, cause: "EOF"},
		"it hangs":                 {serve: hang, want: webhook.Race, cause: "context deadline exceeded"},
		"HTTP 404":                 {serve: respond(404, "no"), want: webhook.Misconfigured, cause: "could not find"},
		"HTTP 403":                 {serve: respond(403, "connection refused"), want: webhook.Misconfigured, cause: "connection refused"},
		"HTTP 500":                 {serve: respond(500, "dial tcp: connection refused"), want: webhook.Overloaded, cause: "an error on the server"},
		"HTTP 503":                 {serve: respond(503, "no"), want: webhook.Overloaded, cause: "currently unable"},
		"HTTP 429":                 {serve: respond(429, "no"), want: webhook.Overloaded, cause: "too many requests"},
		"no review":                {serve: respond(200, "{}"), want: webhook.Misconfigured, cause: "webhook response was absent"},
		"a denial that quotes":     {serve: deny, want: webhook.Denied, cause: "failed calling webhook"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := lab.Namespace(t)
			url, bundle := "https://127.0.0.1:1", []byte(nil)
			if tc.serve != nil {
				url, bundle = serve(t, tc.serve)
			}
			if tc.bundle != nil {
				bundle = tc.bundle
			}
			url += "/v"
			seconds, effects := int32(1), admissionregistrationv1.SideEffectClassNone
			config, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(),
				&admissionregistrationv1.ValidatingWebhookConfiguration{
					ObjectMeta: metav1.ObjectMeta{GenerateName: "classify-"},
					Webhooks: []admissionregistrationv1.ValidatingWebhook{{
						Name:         "v.example.io",
						ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: bundle},
						NamespaceSelector: &metav1.LabelSelector{
							MatchLabels: map[string]string{corev1.LabelMetadataName: namespace},
						},
						Rules: []admissionregistrationv1.RuleWithOperations{{
							Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
							Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
						}},
						SideEffects: &effects, TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"},
					}},
				}, metav1.CreateOptions{})
			require.NoError(t, err)
			t.Cleanup(func() {
				ctx := context.WithoutCancel(t.Context())
				_ = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, config.Name, metav1.DeleteOptions{})
			})
			create := func(dryRun ...string) error {
				_, err := client.CoreV1().Secrets(namespace).Create(t.Context(),
					&corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}, metav1.CreateOptions{DryRun: dryRun})
				return err
			}
			require.Eventually(t, func() bool { return create(metav1.DryRunAll) != nil }, time.Minute, 50*time.Millisecond,
				"the API server learns of a configuration by a watch")

			err = create()
			f := webhook.ClassifyError(fmt.Errorf("INSTALLATION FAILED: %w", err))
			require.Equal(t, tc.want, f.Class, err)
			require.Equal(t, "v.example.io", f.Webhook)
			require.Contains(t, f.Cause, tc.cause)
			require.Equal(t, f, webhook.ClassifyError(errors.New(err.Error())), "nothing is lost with the status")
			if f.Retryable() {
				secrets, err := client.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
				require.NoError(t, err)
				require.Empty(t, secrets.Items, "what can be sent again was not stored")
			}
		})
	}
}

// definition is a CRD of two versions: v1 is sent, v2 is stored.
func definition(group, url string, bundle []byte) *unstructured.Unstructured {
	version := func(name string, storage bool) any {
		return map[string]any{"name": name, "served": true, "storage": storage, "schema": map[string]any{
			"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
		}}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names":    map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget"},
			"versions": []any{version("v1", false), version("v2", true)},
			"conversion": map[string]any{"strategy": "Webhook", "webhook": map[string]any{
				"conversionReviewVersions": []any{"v1"},
				"clientConfig":             map[string]any{"url": url + "/convert", "caBundle": bundle},
			}},
		},
	}}
}

// convert is a conversion webhook which goes away when it is asked for the
// version in gone.
func convert(gone *atomic.Value) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var review unstructured.Unstructured
		_ = json.NewDecoder(r.Body).Decode(&review.Object)
		uid, _, _ := unstructured.NestedString(review.Object, "request", "uid")
		desired, _, _ := unstructured.NestedString(review.Object, "request", "desiredAPIVersion")
		objects, _, _ := unstructured.NestedSlice(review.Object, "request", "objects")
		if strings.HasSuffix(desired, gone.Load().(string)) {
			panic(http.ErrAbortHandler)
		}
		for _, o := range objects {
			o.(map[string]any)["apiVersion"] = desired
		}
		review.Object["response"] = map[string]any{
			"uid": uid, "convertedObjects": objects, "result": map[string]any{"status": "Success"},
		}
		_ = json.NewEncoder(w).Encode(review.Object)
	}
}

// A create that meets a conversion webhook which is away may have been stored:
// the text tells the version that could not be converted.
func TestClassifyConversion(t *testing.T) {
	lab := controlPlane(t)
	client, err := dynamic.NewForConfig(lab.Config(t))
	require.NoError(t, err)
	namespace := lab.Namespace(t)
	group := namespace + ".example.io"
	var gone atomic.Value
	gone.Store("neither")
	url, bundle := serve(t, convert(&gone))
	widgets := func(version string) dynamic.ResourceInterface {
		return client.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: "widgets"}).Namespace(namespace)
	}
	widget := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": group + "/v1", "kind": "Widget", "metadata": map[string]any{"name": name},
		}}
	}

	_, err = widgets("v1").Create(t.Context(), widget("early"), metav1.CreateOptions{})
	f := webhook.ClassifyError(err)
	require.Equal(t, webhook.Definition, f.Kind, err)
	require.Equal(t, webhook.Race, f.Class)
	require.True(t, f.Ambiguous())

	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	crd := definition(group, url, bundle)
	_, err = definitions.Create(t.Context(), crd, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		gone.Store("neither") // or the namespace could not be deleted
		_ = definitions.Delete(context.WithoutCancel(t.Context()), crd.GetName(), metav1.DeleteOptions{})
	})
	require.Eventually(t, func() bool {
		_, err = widgets("v1").Create(t.Context(), widget("first"), metav1.CreateOptions{})
		if f := webhook.ClassifyError(err); err != nil && f.Kind != webhook.Definition {
			t.Errorf("a CRD that is not established says: %v", err)
		}
		return err == nil
	}, time.Minute, 50*time.Millisecond)

	gone.Store("/v2")
	_, err = widgets("v1").Create(t.Context(), widget("before"), metav1.CreateOptions{})
	f = webhook.ClassifyError(err)
	require.Equal(t, webhook.Conversion, f.Kind, err)
	require.Equal(t, group+"/v1, Kind=Widget", f.Webhook)
	require.False(t, f.Retryable())
	require.True(t, f.ForRequest(group+"/v1", false).Retryable())
	_, err = widgets("v2").Get(t.Context(), "before", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "it was not stored: %v", err)

	gone.Store("/v1")
	_, err = widgets("v1").Create(t.Context(), widget("after"), metav1.CreateOptions{})
	f = webhook.ClassifyError(err)
	require.Equal(t, webhook.Conversion, f.Kind, err)
	require.Equal(t, group+"/v2, Kind=Widget", f.Webhook)
	require.False(t, f.ForRequest(group+"/v1", false).Retryable())
	_, err = widgets("v2").Get(t.Context(), "after", metav1.GetOptions{})
	require.NoError(t, err, "it was stored")

	_, err = widgets("v1").List(t.Context(), metav1.ListOptions{})
	f = webhook.ClassifyError(err)
	require.Equal(t, webhook.Conversion, f.Kind, err)
	require.True(t, f.ForRequest(group+"/v1", true).Retryable())
}
