package webhook

import (
	"bytes"
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
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"
)

// authority makes a CA certificate in PEM that is in force from and until.
func authority(t *testing.T, from, until time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: until, IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestLook(t *testing.T) {
	now := time.Now()
	good := authority(t, now.Add(-time.Hour), now.Add(time.Hour))
	old := authority(t, now.Add(-2*time.Hour), now.Add(-time.Hour))
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "w", Namespace: "ns"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}
	slice := func(ready bool) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "w-1", Namespace: "ns", Labels: map[string]string{discoveryv1.LabelServiceName: "w"}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		}
	}
	port := int32(9443)
	for name, tc := range map[string]struct {
		bundle  []byte
		port    *int32
		url     string
		objects []runtime.Object
		want    Reading
	}{
		"the injector has not run": {nil, nil, "", nil, Reading{Rung: Trusted, Reason: "the CA bundle is empty: its injector has not run yet"}},
		"a placeholder":            {[]byte("Cg=="), nil, "", nil, Reading{Rung: Trusted, Reason: "the CA bundle holds no certificate"}},
		"an old and a new certificate": {
			append(bytes.Clone(old), good...), nil, "https://example.org", nil, Reading{Rung: Trusted, Ready: true},
		},
		"no service":   {good, nil, "", nil, Reading{Rung: Routed, Reason: "Service ns/w does not exist"}},
		"no such port": {good, &port, "", []runtime.Object{service}, Reading{Rung: Routed, Reason: "Service ns/w has no port 9443"}},
		"no endpoints": {good, nil, "", []runtime.Object{service}, Reading{Rung: Backed, Reason: "endpoints of Service ns/w ready 0/0"}},
		"not ready":    {good, nil, "", []runtime.Object{service, slice(false)}, Reading{Rung: Backed, Reason: "endpoints of Service ns/w ready 0/1"}},
		"ready":        {good, nil, "", []runtime.Object{service, slice(true)}, Reading{Rung: Backed, Ready: true}},
		"a URL with an authority of the system's": {nil, nil, "https://example.org", nil, Reading{Rung: Trusted, Ready: true}},
		"a URL with a broken bundle": {
			[]byte("x"), nil, "https://example.org", nil, Reading{Rung: Trusted, Reason: "the CA bundle holds no certificate"},
		},
		"called by a URL": {good, nil, "https://example.org", nil, Reading{Rung: Trusted, Ready: true}},
	} {
		t.Run(name, func(t *testing.T) {
			e := Entry{Client: admissionv1.WebhookClientConfig{CABundle: tc.bundle}}
			if tc.url != "" {
				e.Client.URL = &tc.url
			} else {
				e.Client.Service = &admissionv1.ServiceReference{Namespace: "ns", Name: "w", Port: tc.port}
			}
			got, err := Look(t.Context(), fake.NewClientset(tc.objects...), e)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}

	t.Run("expired", func(t *testing.T) {
		require.Contains(t, distrust(old, now), "the CA bundle expired at ")
	})
}

func TestEntriesKnowTheirRelease(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "c", Annotations: map[string]string{
		"meta.helm.sh/release-name": "eso", "meta.helm.sh/release-namespace": "external-secrets",
	}}
	entries, err := Entries(t.Context(), fake.NewClientset(
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionv1.ValidatingWebhook{{Name: "a"}, {Name: "b"}}},
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Webhooks: []admissionv1.MutatingWebhook{{Name: "e"}}},
	))
	require.NoError(t, err)
	require.Len(t, entries, 3)
	require.Equal(t, "external-secrets/eso", entries[0].Release)
	require.Equal(t, `webhook "a" of c`, entries[0].String())
	require.True(t, entries[2].Mutating)
	require.Empty(t, entries[2].Release)
}

func TestSample(t *testing.T) {
	for name, tc := range map[string]struct{ schema, want string }{
		"required fields only": {
			`{type: object, required: [spec], properties: {status: {type: object}, spec: {type: object, required: [size, loud], properties: {size: {type: integer}, loud: {type: boolean}, note: {type: string}}}}}`,
			`{spec: {size: 1, loud: false}}`,
		},
		"defaults and enums": {
			`{type: object, required: [a, b], properties: {a: {type: string, default: x}, b: {type: string, enum: [p, q]}}}`,
			`{a: x, b: p}`,
		},
		"bounds": {
			`{type: object, required: [a, b, c, d], properties: {a: {type: integer, minimum: 3}, b: {type: integer, maximum: 0}, c: {type: string, minLength: 13}, d: {type: array, minItems: 1, items: {type: string, maxLength: 5}}}}`,
			`{a: 3, b: 0, c: kplan-probexx, d: [kplan]}`,
		},
		"anything goes": {`{type: object, x-kubernetes-preserve-unknown-fields: true}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			var schema map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(tc.schema), &schema))
			got, err := yaml.Marshal(Sample(schema))
			require.NoError(t, err)
			require.YAMLEq(t, tc.want, string(got))
		})
	}
}

func TestLabels(t *testing.T) {
	for name, tc := range map[string]struct {
		selector string
		want     map[string]string
		fails    bool
	}{
		"no selector":  {`{}`, map[string]string{}, false},
		"match labels": {`{matchLabels: {a: b}}`, map[string]string{"a": "b"}, false},
		"expressions": {
			`{matchExpressions: [{key: a, operator: In, values: [x, y]}, {key: b, operator: NotIn, values: [z]}, {key: c, operator: Exists}]}`,
			map[string]string{"a": "x", "c": ""},
			false,
		},
		"a contradiction": {`{matchLabels: {a: b}, matchExpressions: [{key: a, operator: DoesNotExist}]}`, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &metav1.LabelSelector{}
			require.NoError(t, yaml.Unmarshal([]byte(tc.selector), s))
			got, err := Labels(s)
			if tc.fails {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}
