package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
)

// with is an operator with these flags in a cluster with these objects.
func with(t *testing.T, args []string, objects ...string) *operator {
	t.Helper()
	cfg, err := parseConfig(args, none)
	require.NoError(t, err)
	var all []runtime.Object
	for _, o := range objects {
		all = append(all, parse(t, o))
	}
	kinds := map[schema.GroupVersionResource]string{
		validatingResource: "ValidatingWebhookConfigurationList",
		mutatingResource:   "MutatingWebhookConfigurationList",
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, all...)
	return newOperator(cfg, client, slog.New(slog.DiscardHandler))
}

const (
	// The CA is "Q0E=" in base64.
	tlsSecret = `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"ns","name":"tls"},"data":{"ca.crt":"Q0E="}}`
	noSecret  = `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"ns","name":"empty"},"data":{}}`
)

func configuration(annotation string) string {
	return `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration",
"metadata":{"name":"conf","annotations":{` + annotation + `}},"webhooks":[{"name":"a","clientConfig":{}},{"name":"b","clientConfig":{}}]}`
}

// bundles are the caBundles of the configuration's webhooks, in order.
func (o *operator) bundles(t *testing.T) []string {
	t.Helper()
	u, err := o.client.Resource(validatingResource).Get(t.Context(), "conf", metav1.GetOptions{})
	require.NoError(t, err)
	hooks, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
	out := make([]string, len(hooks))
	for i, h := range hooks {
		out[i], _, _ = unstructured.NestedString(h.(map[string]any), "clientConfig", "caBundle")
	}
	return out
}

func TestCAInjector(t *testing.T) {
	const certificate = `{"apiVersion":"cert-manager.io/v1","kind":"Certificate","metadata":{"namespace":"ns","name":"cert"},"spec":{"secretName":"tls"}}`
	for _, tt := range []struct {
		name, annotation, missing string
		bundles                   []string
	}{
		{"a certificate", `"cert-manager.io/inject-ca-from":"ns/cert"`, "", []string{"Q0E=", "Q0E="}},
		{"a Secret", `"cert-manager.io/inject-ca-from-secret":"ns/tls"`, "", []string{"Q0E=", "Q0E="}},
		{"an empty Secret", `"cert-manager.io/inject-ca-from-secret":"ns/empty"`, "has no ca.crt yet", []string{"", ""}},
		{"no certificate", `"cert-manager.io/inject-ca-from":"ns/other"`, "not found", []string{"", ""}},
		{"nothing", ``, "", []string{"", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := with(t, []string{"--run=cainjector"}, tlsSecret, noSecret, certificate, configuration(tt.annotation))
			err := injector{o}.annotated(t.Context())
			if tt.missing == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.missing)
			}
			require.Equal(t, tt.bundles, o.bundles(t))
		})
	}
}

// The Job injects by index: a webhook that was added later is left without a CA.
func TestInjectFirst(t *testing.T) {
	o := with(t, []string{"--job=inject", "--namespace=ns", "--cert-secret=tls", "--inject-webhooks=conf", "--inject-to=1"},
		tlsSecret, configuration(""))
	require.NoError(t, jobs[jobInject](t.Context(), o))
	require.Equal(t, []string{"Q0E=", ""}, o.bundles(t))
}

func TestVerifyChart(t *testing.T) {
	args := []string{"--job=verify", "--missing=lost:1.0.0", "--chart"}
	require.NoError(t, jobs[jobVerify](t.Context(), with(t, append(args, "minio:14.1.2"))))
	require.ErrorContains(t, jobs[jobVerify](t.Context(), with(t, append(args, "lost:1.0.0"))), "does not exist or cannot be pulled")
}

func TestAwaitFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tls.crt")
	require.NoError(t, os.WriteFile(file, []byte("certificate"), 0o600))
	require.NoError(t, jobs[jobAwait](t.Context(), with(t, []string{"--job=await", "--await-file", file})))
}

// A template is valid once its repository is there, and no longer when that was
// taken away.
func TestValidateTemplate(t *testing.T) {
	const repository = `{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"HelmRepository","metadata":{"namespace":"ns","name":"catalog"}}`
	template := parse(t, `{"metadata":{"namespace":"ns","generation":1},
"spec":{"helm":{"chartSpec":{"chart":"minio","version":"14.1.2","sourceRef":{"name":"catalog"}}}}}`)
	for _, tt := range []struct {
		name, missing string
		objects       []string
		valid         bool
		why           string
	}{
		{"valid", "", []string{repository}, true, ""},
		{"no repository", "", nil, false, "failed to get source"},
		{"no chart", "minio:14.1.2", []string{repository}, false, "failed to download chart"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := with(t, []string{"--missing", tt.missing}, tt.objects...)
			status, again, err := validateTemplate(t.Context(), newController(o), template, o.cfg.ReadyDelay)
			require.NoError(t, err)
			require.NotZero(t, again)
			require.Equal(t, tt.valid, status["valid"])
			if tt.why != "" {
				require.Contains(t, status["validationError"], tt.why)
			}
		})
	}
}
