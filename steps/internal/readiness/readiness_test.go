package readiness

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/expr"
)

// TestReadyMade judges the objects of testdata, as these projects' controllers leave them:
// each document has the object and, under "verdict", what is to be said of it. Every kind
// with a rule has a verdict that is ready and one that is not.
func TestReadyMade(t *testing.T) {
	files, err := os.ReadDir("testdata")
	require.NoError(t, err)
	said := map[schema.GroupKind]map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile("testdata/" + f.Name())
		require.NoError(t, err)
		for doc := range strings.SplitSeq(string(text), "\n---\n") {
			u := &unstructured.Unstructured{}
			json, err := yaml.YAMLToJSON([]byte(doc + "\n"))
			require.NoError(t, err, f.Name())
			require.NoError(t, u.UnmarshalJSON(json), f.Name())
			want, _, _ := unstructured.NestedString(u.Object, "verdict")
			delete(u.Object, "verdict")
			kind := u.GroupVersionKind().GroupKind()
			t.Run(kind.String()+"/"+want, func(t *testing.T) {
				v, known := (*Rules)(nil).Judge(u)
				require.True(t, known, "there is no rule")
				state := map[[2]bool]string{{true, false}: "ready", {false, true}: "failed: " + v.Reason}[[2]bool{v.Ready, v.Failed}]
				if state == "" {
					state = "waiting: " + v.Reason
				}
				require.Equal(t, want, state)
				v, _ = (*Rules)(nil).Judge(withoutStatus(u))
				require.False(t, v.Failed, "nothing is known of one without a status")
			})
			if said[kind] == nil {
				said[kind] = map[string]bool{}
			}
			said[kind][strings.SplitN(want, ":", 2)[0]] = true
		}
	}
	for kind, r := range readyMade() {
		require.NoError(t, r.compile(), kind)
		for text, want := range map[string]expr.Type{r.spec.Ready: expr.Bool, r.spec.Failed: expr.Bool, r.spec.Message: expr.String} {
			if text != "" {
				require.NoError(t, expr.Check(text, want, "object"), "%s: a plan can have the same: %s", kind, text)
			}
		}
	}
	for _, kind := range []string{
		"Certificate.cert-manager.io", "ExternalSecret.external-secrets.io", "VMCluster.operator.victoriametrics.com", "HelmRelease.helm.toolkit.fluxcd.io",
		"ServiceTemplate.k0rdent.mirantis.com", "Cluster.cluster.x-k8s.io", "Application.argoproj.io",
	} {
		require.True(t, said[schema.ParseGroupKind(kind)]["ready"] && len(said[schema.ParseGroupKind(kind)]) > 1, kind)
	}
}

func withoutStatus(u *unstructured.Unstructured) *unstructured.Unstructured {
	u = u.DeepCopy()
	delete(u.Object, "status")
	return u
}

func widget(generation int64, status map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w", "generation": generation}, "status": status,
	}}
}

func TestOwn(t *testing.T) {
	r, err := New(map[string]plan.Readiness{
		"Widget.example.com":          {Ready: `object.status.phase == "Running"`, Failed: `object.status.phase == "Broken"`, Message: "object.status.why"},
		"Certificate.cert-manager.io": {Ready: "true"},
	})
	require.NoError(t, err)
	for _, c := range []struct {
		status map[string]any
		want   Verdict
	}{
		{map[string]any{"phase": "Running"}, Verdict{Ready: true}},
		{map[string]any{"phase": "Running", "observedGeneration": int64(1)}, Verdict{Reason: "its controller has not looked at generation 2 yet"}},
		{map[string]any{"phase": "Broken", "why": "no disk"}, Verdict{Failed: true, Reason: "no disk"}},
		{map[string]any{"phase": "Starting"}, Verdict{Reason: `not yet: object.status.phase == "Running"`}},
		{map[string]any{}, Verdict{Reason: "it has no phase yet"}},
		{map[string]any{"conditions": []any{map[string]any{"type": "Synced", "status": "False", "reason": "NoNode"}}}, Verdict{Reason: "Synced is False: NoNode"}},
	} {
		got, known := r.Judge(widget(2, c.status))
		require.True(t, known)
		require.Equal(t, c.want, got)
	}
	kind := schema.ParseGroupKind("Certificate.cert-manager.io")
	require.True(t, r.Own(kind))
	require.False(t, (*Rules)(nil).Own(kind))

	_, known := (*Rules)(nil).Judge(widget(1, nil))
	require.False(t, known)
	_, err = New(map[string]plan.Readiness{"Widget.example.com": {Ready: "object.status.isFine()"}})
	require.ErrorContains(t, err, "ready: Widget.example.com: ")
}
