package fields

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func read(t *testing.T, text []byte) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON(text)
	require.NoError(t, err)
	u := &unstructured.Unstructured{}
	require.NoError(t, u.UnmarshalJSON(raw))
	return u
}

// deployment is a manifest, and the object that an API server made of it for "kplan".
func deployment(t *testing.T) (manifest, live *unstructured.Unstructured) {
	t.Helper()
	a, err := os.ReadFile("testdata/manifest.yaml")
	require.NoError(t, err)
	b, err := os.ReadFile("testdata/live.json")
	require.NoError(t, err)
	return read(t, a), read(t, b)
}

// container is the only one of a Deployment.
func container(u *unstructured.Unstructured) map[string]any {
	containers, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template", "spec", "containers")
	return containers.([]any)[0].(map[string]any)
}

func TestAManifestIsFoundInItsObject(t *testing.T) {
	manifest, live := deployment(t)
	m, ok, err := Applied(live, "kplan")
	require.NoError(t, err)
	require.True(t, ok)
	set := Set(manifest, m.Set)
	require.True(t, set.Equals(m.Set), "too much: %v\nmissing: %v", set.Difference(m.Set), m.Set.Difference(set))
	require.Empty(t, Unmet(manifest, live, m.Set))

	managers, err := Managers(live)
	require.NoError(t, err)
	require.Empty(t, Unmet(manifest, live, Union(managers)))
}

func TestUnmetAndSetSayWhatWasChanged(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(manifest, live *unstructured.Unstructured)
		unmet  []string // the paths
		owned  bool     // the set is the same
	}{
		"a value of the manifest": {
			func(m, _ *unstructured.Unstructured) { container(m)["image"] = "other" },
			[]string{"spec.template.spec.containers[name=c].image"},
			true,
		},
		"a live value": {
			func(_, l *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(l.Object, int64(3), "spec", "replicas")
			},
			[]string{"spec.replicas"},
			true,
		},
		"a field left out": {func(m, _ *unstructured.Unstructured) { delete(container(m), "env") }, nil, false},
		"a field more":     {func(m, _ *unstructured.Unstructured) { container(m)["imagePullPolicy"] = "Always" }, nil, false},
		"a default inside a whole that was not there": {func(m, _ *unstructured.Unstructured) {
			container(m)["env"].([]any)[0].(map[string]any)["valueFrom"] = map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.uid"}}
		}, []string{"spec.template.spec.containers[name=c].env[name=A].valueFrom.fieldRef"}, true},
		"a quantity": {func(m, _ *unstructured.Unstructured) {
			container(m)["resources"].(map[string]any)["limits"].(map[string]any)["cpu"] = "1001m"
		}, []string{"spec.template.spec.containers[name=c].resources.limits.cpu"}, true},
		"what only looks like a quantity": {func(m, l *unstructured.Unstructured) {
			m.SetLabels(map[string]string{"app.kubernetes.io/name": "1000m"})
			l.SetLabels(map[string]string{"app.kubernetes.io/name": "1"})
		}, []string{`metadata.labels["app.kubernetes.io/name"]`}, true},
		"the order of items": {func(m, _ *unstructured.Unstructured) {
			env := container(m)["env"].([]any)
			env[0], env[1] = env[1], env[0]
		}, []string{"spec.template.spec.containers[name=c].env"}, true},
		"an item of a list that is one value": {
			func(m, _ *unstructured.Unstructured) { container(m)["args"] = []any{"-v", "-w"} },
			[]string{"spec.template.spec.containers[name=c].args"},
			true,
		},
		"an item that is gone": {func(_, l *unstructured.Unstructured) {
			container(l)["ports"] = container(l)["ports"].([]any)[:1]
		}, []string{"spec.template.spec.containers[name=c].ports[containerPort=53,protocol=UDP]"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			manifest, live := deployment(t)
			tt.change(manifest, live)
			m, _, err := Applied(live, "kplan")
			require.NoError(t, err)
			var paths []string
			for _, c := range Unmet(manifest, live, m.Set) {
				paths = append(paths, c.Text())
			}
			require.Equal(t, tt.unmet, paths)
			require.Equal(t, tt.owned, Set(manifest, m.Set).Equals(m.Set))
		})
	}
}

func TestDiffNamesWhoOwnsAField(t *testing.T) {
	_, before := deployment(t)
	after := before.DeepCopy()
	container(after)["image"] = "other"
	container(after)["args"] = []any{}
	delete(after.Object["spec"].(map[string]any), "replicas")
	changes, err := Diff(before, after)
	require.NoError(t, err)
	require.Len(t, changes, 3)
	require.Equal(t, "spec.replicas", changes[0].Text())
	require.Equal(t, int64(0), changes[0].Before)
	require.Nil(t, changes[0].After)
	require.Equal(t, "spec.template.spec.containers[name=c].args", changes[1].Text())
	require.Equal(t, "spec.template.spec.containers[name=c].image", changes[2].Text())
	require.Equal(t, "kplan (Apply)", changes[2].Managers[0].String())
}

func TestDiffHidesValuesOfSecrets(t *testing.T) {
	before := read(t, []byte(`{apiVersion: v1, kind: Secret, metadata: {name: a, annotations: {`+lastApplied+`: hush}}, data: {x: aHVzaA==, gone: aHVzaA==}}`))
	after := read(t, []byte(`{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {x: b3RoZXI=}}`))
	changes, err := Diff(before, after)
	require.NoError(t, err)
	require.Equal(t, []any{hidden, nil, hiddenBefore, hiddenAfter},
		[]any{changes[0].Before, changes[0].After, changes[1].Before, changes[1].After})
	require.Equal(t, map[string]any{lastApplied: hidden}, changes[2].Before)
	require.Equal(t, map[string]any{"x": hidden, "gone": hidden}, Masked(before).Object["data"])
	require.NotContains(t, Masked(before).GetAnnotations(), "hush")
}

func TestSecretsInPlainTextAreComparedDecoded(t *testing.T) {
	manifest := read(t, []byte(`{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {x: hush}, data: {y: "YQ=="}}`))
	live := read(t, []byte(`{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {x: aHVzaA==, y: YQ==}, type: Opaque}`))
	require.Empty(t, Unmet(manifest, live, nil))
	require.NoError(t, unstructured.SetNestedField(live.Object, "b3RoZXI=", "data", "x"))
	require.Len(t, Unmet(manifest, live, nil), 1)
}
