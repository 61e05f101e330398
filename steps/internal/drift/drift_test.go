package drift_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/steps/internal/drift"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &u.Object))
	return u
}

// Of what differs, only what others set is drift, and only what controllers do not
// keep is not left to them.
func TestDrift(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		manifest, live string
		drift, left    []string
	}{
		"what the API server writes otherwise": {
			manifest: `{apiVersion: v1, kind: Pod, metadata: {name: a, creationTimestamp: null}, spec: {nodeSelector: {}, containers: [
				{name: a, image: i, args: null, resources: {limits: {cpu: 0.5, memory: 1024Mi}}, ports: [{containerPort: 80}], nosuchfield: 1}]}, status: {phase: x}}`,
			live: `{apiVersion: v1, kind: Pod, metadata: {name: a, uid: b}, spec: {containers: [
				{name: a, image: i, resources: {limits: {cpu: 500m, memory: 1Gi}}, ports: [{containerPort: 80, protocol: TCP}]}]}}`,
		},
		"texts of a Secret": {
			manifest: `{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {a: x}, data: {b: eA==}}`,
			live:     `{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {a: eQ==, b: eA==}}`,
			drift:    []string{"data.a has another value"},
		},
		"by people, controllers and the sender itself": {
			manifest: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, labels: {a: b}}, spec: {replicas: 2, paused: true, minReadySeconds: 3}}`,
			live: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, labels: {a: c}, managedFields: [
				{manager: helm, operation: Update, apiVersion: apps/v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:minReadySeconds": {}}}},
				{manager: kubectl-label, operation: Update, apiVersion: apps/v1, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:labels": {"f:a": {}}}}},
				{manager: kube-controller-manager, operation: Update, subresource: scale, apiVersion: apps/v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:replicas": {}}}}]},
				spec: {replicas: 5, minReadySeconds: 4}}`,
			drift: []string{`metadata.labels.a is "c" instead of "b" (by kubectl-label)`, `spec.paused is gone, which was true`},
			left:  []string{"spec.replicas is 5 instead of 2 (by kube-controller-manager through scale)"},
		},
		"items of lists": {
			manifest: `{apiVersion: v1, kind: Service, metadata: {name: a, finalizers: [a, b]}, spec: {ports: [{name: dns, port: 53, protocol: UDP}, {name: web, port: 80}, {name: more, port: 81}], loadBalancerSourceRanges: [a, b]}}`,
			live: `{apiVersion: v1, kind: Service, metadata: {name: a, finalizers: [c, b], managedFields: [
				{manager: helm, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:finalizers": {".": {}, 'v:"b"': {}}},
					"f:spec": {"f:ports": {".": {}, 'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}}, 'k:{"port":53,"protocol":"UDP"}': {".": {}}}}}},
				{manager: hand, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:loadBalancerSourceRanges": {}, "f:ports": {'k:{"port":53,"protocol":"UDP"}': {"f:name": {}}}}}}]},
				spec: {ports: [{name: web, port: 80, protocol: TCP}, {name: DNS, port: 53, protocol: UDP}], loadBalancerSourceRanges: [a]}}`,
			drift: []string{
				`metadata.finalizers["a"] is gone, which was "a"`,
				`spec.loadBalancerSourceRanges is ["a"] instead of ["a","b"] (by hand)`,
				`spec.ports[port=53,protocol=UDP].name is "DNS" instead of "dns" (by hand)`,
				`spec.ports[port=81] is gone, which was {"name":"more","port":81}`,
			},
		},
		"certificates that others bring": {
			manifest: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a}, webhooks: [{name: a.b.c, clientConfig: {caBundle: Cg==}}]}`,
			live: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a, managedFields: [
				{manager: kubectl-patch, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:webhooks": {'k:{"name":"a.b.c"}': {"f:clientConfig": {"f:caBundle": {}}}}}}]},
				webhooks: [{name: a.b.c, clientConfig: {caBundle: LS0t}}]}`,
			left: []string{`webhooks[name=a.b.c].clientConfig.caBundle is "LS0t" instead of "Cg==" (by kubectl-patch)`},
		},
		"a kind that is not known here": {
			manifest: `{apiVersion: a/v1, kind: B, metadata: {name: a}, spec: {a: {b: 1.0, c: null, d: []}, e: "yes"}}`,
			live:     `{apiVersion: a/v1, kind: B, metadata: {name: a}, spec: {a: {b: 1}, e: true}}`,
			drift:    []string{`spec.e is true instead of "yes"`},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			manifest, live := object(t, tt.manifest), object(t, tt.live)
			var controllers drift.Controllers
			var found, left []string
			for _, f := range drift.Of(manifest, live, "helm") {
				if controllers.Left(f) {
					left = append(left, f.String())
				} else {
					found = append(found, f.String())
				}
			}
			require.Equal(t, tt.drift, found)
			require.Equal(t, tt.left, left)
		})
	}
}
