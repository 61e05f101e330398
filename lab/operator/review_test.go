package main

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

func request(op admissionv1.Operation, group, kind, object string) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		Operation: op,
		Kind:      metav1.GroupVersionKind{Group: group, Kind: kind},
		Object:    runtime.RawExtension{Raw: []byte(object)},
	}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name, group, kind, object string
		op                        admissionv1.Operation
		denied                    string
	}{
		{name: "plain", object: `{"spec":{}}`},
		{name: "field", object: `{"spec":{"deny":true}}`, denied: "objects that ask to be denied"},
		{name: "field with words", object: `{"spec":{"deny":true,"denyMessage":"too big"}}`, denied: "too big"},
		{name: "label", object: `{"metadata":{"labels":{"lab.kplan.dev/deny":"true"}}}`, denied: "lab.kplan.dev/deny"},
		{name: "deletion", op: admissionv1.Delete, object: ``},
		{name: "no object", object: `[`, denied: "read the object"},
		{name: "external secret without data", group: groupESO, kind: "ExternalSecret", object: `{"spec":{}}`, denied: "either data or dataFrom should be specified"},
		{name: "certificate without names", group: groupCertManager, kind: "Certificate", object: `{"spec":{"secretName":"tls","commonName":""}}`, denied: "at least one of commonName"},
		{name: "certificate", group: groupCertManager, kind: "Certificate", object: `{"spec":{"dnsNames":["app"]}}`},
		{name: "graph without services", group: "nvidia.com", kind: "DynamoGraphDeployment", object: `{"spec":{"services":{}}}`, denied: "spec.services must have at least one service"},
		{name: "external secret", group: groupESO, kind: "ExternalSecret", object: `{"spec":{"dataFrom":[{}]}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := validate(request(tt.op, tt.group, tt.kind, tt.object))
			require.Equal(t, tt.denied == "", resp.Allowed)
			if tt.denied != "" {
				require.Contains(t, resp.Result.Message, tt.denied)
			}
		})
	}
}

func TestMutate(t *testing.T) {
	cfg, err := parseConfig([]string{"--name=op"}, none)
	require.NoError(t, err)
	o := newOperator(cfg, nil, slog.New(slog.DiscardHandler))
	const annotation = `{"op":"add","path":"/metadata/annotations/lab.kplan.dev~1mutated-by","value":"op"}`
	for object, want := range map[string]string{
		`{"spec":{}}`: `[{"op":"add","path":"/spec/tier","value":"standard"},{"op":"add","path":"/metadata/annotations","value":{}},` + annotation + `]`,
		`{"metadata":{"annotations":{"a":"b"}},"spec":{"tier":"high"}}`: `[` + annotation + `]`,
	} {
		resp := o.mutate(request(admissionv1.Create, groupLab, "", object))
		require.True(t, resp.Allowed)
		require.JSONEq(t, want, string(resp.Patch))
	}
	who := request(admissionv1.Create, groupCertManager, "CertificateRequest", `{"spec":{}}`)
	who.UserInfo.Username = "ann"
	require.Contains(t, string(o.mutate(who).Patch), `{"op":"add","path":"/spec/username","value":"ann"}`)
	require.Empty(t, o.mutate(request(admissionv1.Delete, "", "", "")).Patch)
}

// Every entry of a configuration gets the CA, and a placeholder conversion is
// replaced.
func TestInjection(t *testing.T) {
	hooks := parse(t, `{"webhooks":[{"name":"a","clientConfig":{"service":{"name":"s"}}},{"name":"b","clientConfig":{"caBundle":"old"}}]}`)
	require.NoError(t, setBundles(hooks, "new"))
	requireJSON(t, `{"webhooks":[{"name":"a","clientConfig":{"caBundle":"new","service":{"name":"s"}}},{"name":"b","clientConfig":{"caBundle":"new"}}]}`, hooks)

	cfg, err := parseConfig([]string{"--service=hook:443", "--namespace=ns"}, none)
	require.NoError(t, err)
	crd := parse(t, `{"spec":{"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"service":{"name":"kubernetes"}}}}}}`)
	require.NoError(t, injector{newOperator(cfg, nil, nil)}.setConversion(crd, "new"))
	requireJSON(t, `{"spec":{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":
		{"caBundle":"new","service":{"name":"hook","namespace":"ns","path":"/convert","port":443}}}}}}`, crd)
}

func TestFakeProvider(t *testing.T) {
	entries := []any{map[string]any{"key": "k", "value": `{"user":"u"}`}, map[string]any{"key": "plain", "value": "v"}}
	got, err := fakeValue(entries, "k")
	require.NoError(t, err)
	require.Equal(t, "u", string(got["user"]))
	got, err = fakeValue(entries, "plain")
	require.NoError(t, err)
	require.Equal(t, "v", string(got[""]))
	_, err = fakeValue(entries, "absent")
	require.ErrorContains(t, err, `"absent"`)
}

// A condition keeps its time while its status does not flip.
func TestKeepTransitions(t *testing.T) {
	old := parse(t, `{"conditions":[{"type":"Ready","status":"False","lastTransitionTime":"then"}]}`).Object
	same := map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False", "lastTransitionTime": "now"}}}
	keepTransitions(old, same)
	require.Equal(t, old, same)
	flipped := map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": "now"}}}
	keepTransitions(old, flipped)
	require.Contains(t, flipped["conditions"].([]any)[0], "lastTransitionTime")
	require.Equal(t, "now", flipped["conditions"].([]any)[0].(map[string]any)["lastTransitionTime"])
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal([]byte(text), &u.Object))
	return u
}

func requireJSON(t *testing.T, want string, got *unstructured.Unstructured) {
	t.Helper()
	text, err := json.Marshal(got.Object)
	require.NoError(t, err)
	require.JSONEq(t, want, string(text))
}
