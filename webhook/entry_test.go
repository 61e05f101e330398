package webhook

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// object reads one from YAML.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &u.Object))
	return u
}

func TestEntriesOf(t *testing.T) {
	t.Run("what is left out has the API server's defaults", func(t *testing.T) {
		entries, err := EntriesOf(object(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: c}
webhooks:
- {name: a.example.io, clientConfig: {service: {name: w, namespace: ns}}}
- {name: b.example.io, clientConfig: {url: "https://example.org"}, failurePolicy: Ignore, timeoutSeconds: 3, sideEffects: None, matchPolicy: Exact, reinvocationPolicy: IfNeeded}
`))
		require.NoError(t, err)
		require.Len(t, entries, 2)
		a, b := entries[0], entries[1]
		require.Equal(t, Mutating, a.Kind)
		require.Equal(t, "ns/w", a.Service())
		require.EqualValues(t, 443, a.Port())
		require.Equal(t, admissionv1.Fail, a.FailurePolicy)
		require.Equal(t, admissionv1.Equivalent, a.MatchPolicy)
		require.Equal(t, admissionv1.NeverReinvocationPolicy, a.ReinvocationPolicy)
		require.Equal(t, 10*time.Second, a.Timeout)
		require.Equal(t, Object{Kind: "MutatingWebhookConfiguration", Name: "c"}, a.Source())
		require.Equal(t, `mutating webhook "a.example.io" of c`, a.String())
		require.Empty(t, b.Service())
		require.Equal(t, admissionv1.Ignore, b.FailurePolicy)
		require.Equal(t, admissionv1.Exact, b.MatchPolicy)
		require.Equal(t, 3*time.Second, b.Timeout)
		require.False(t, a.Is(b))
	})

	t.Run("a CRD's conversion webhook", func(t *testing.T) {
		entries, err := EntriesOf(object(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gizmos.example.io}
spec:
  group: example.io
  names: {kind: Gizmo}
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {caBundle: Cg==, service: {name: w, namespace: ns, port: 8443}}}}
`))
		require.NoError(t, err)
		require.Len(t, entries, 1)
		e := entries[0]
		require.Equal(t, schema.GroupKind{Group: "example.io", Kind: "Gizmo"}, e.Converts)
		require.Equal(t, "\n", string(e.Client.CABundle))
		require.EqualValues(t, 8443, e.Port())
		require.True(t, e.Matches(Fault{Kind: Conversion, Webhook: "example.io/v1, Kind=Gizmo"}))
		require.False(t, e.Matches(Fault{Kind: Conversion, Webhook: "example.io/v1, Kind=Gadget"}))
	})

	t.Run("a CRD without one, and any other object", func(t *testing.T) {
		for _, text := range []string{
			`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x}, spec: {conversion: {strategy: None}}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}`,
		} {
			entries, err := EntriesOf(object(t, text))
			require.NoError(t, err)
			require.Empty(t, entries)
		}
	})

	t.Run("a configuration that is none", func(t *testing.T) {
		_, err := EntriesOf(object(t, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: x}, webhooks: 3}`))
		require.ErrorContains(t, err, "ValidatingWebhookConfiguration x: ")
	})
}

func TestOwner(t *testing.T) {
	for name, tc := range map[string]struct{ metadata, want string }{
		"a Helm release": {`annotations: {meta.helm.sh/release-name: eso, meta.helm.sh/release-namespace: external-secrets}, labels: {app.kubernetes.io/part-of: other}`, "Helm release external-secrets/eso"},
		"its controller": {`ownerReferences: [{apiVersion: v1, kind: Operator, name: o, uid: u, controller: true}]`, "Operator/o"},
		"its labels":     {`labels: {app.kubernetes.io/name: web, app.kubernetes.io/part-of: p}`, "p"},
		"the first field manager": {
			`managedFields: [{manager: cainjector, time: "2026-01-01T00:00:01Z"}, {manager: kubectl, time: "2026-01-01T00:00:00Z"}]`, "field manager kubectl",
		},
		"nobody that is known": {``, ""},
	} {
		t.Run(name, func(t *testing.T) {
			u := object(t, `{apiVersion: v1, kind: X, metadata: {name: x, `+tc.metadata+`}}`)
			require.Equal(t, tc.want, OwnerOf(u).String())
		})
	}
}
