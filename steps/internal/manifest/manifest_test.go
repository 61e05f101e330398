package manifest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/source"
)

// ids lists what was decoded as "SOURCE ID".
func ids(ms []Object) []string {
	var out []string
	for _, m := range ms {
		out = append(out, m.Source+" "+m.ID())
	}
	return out
}

func text(file string) source.Text { return source.Text{Name: "f", Bytes: []byte(file)} }

func TestDecode(t *testing.T) {
	for name, tt := range map[string]struct {
		file string
		want []string
		err  string
	}{
		"documents, empty ones and comments": {
			file: "# nothing\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n--- # more\n---\n# still nothing\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: b, namespace: x}\n---\n",
			want: []string{"f:3: document 1 ConfigMap/a", "f:8: document 4 Secret/x/b"},
		},
		"line ends of Windows and a byte order mark": {
			file: "\ufeffapiVersion: v1\r\nkind: ConfigMap\r\nmetadata:\r\n  name: a\r\n---\r\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\r\n",
			want: []string{"f:1: document 1 ConfigMap/a", "f:6: document 2 ConfigMap/b"},
		},
		"JSON": {
			file: "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"ConfigMap\",\n\t\"metadata\": {\"name\": \"a\"}\n}",
			want: []string{"f:1: document 1 ConfigMap/a"},
		},
		"three dashes in a text": {
			file: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  pem: |\n    -----BEGIN-----\n    ---\n",
			want: []string{"f:1: document 1 ConfigMap/a"},
		},
		"lists, in lists too": {
			file: "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- apiVersion: v1\n  kind: ConfigMapList\n  items:\n  - {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n",
			want: []string{"f:1: document 1, items[0] ConfigMap/a", "f:1: document 1, items[1], items[0] ConfigMap/b"},
		},
		"nothing at all":     {file: "", want: nil},
		"not an object":      {file: "- a\n- b\n", err: "f:1: document 1: is not an object with apiVersion and kind"},
		"something else":     {file: "replicaCount: 1\n", err: "f:1: document 1: has neither apiVersion nor kind: is it a Kubernetes object?"},
		"no apiVersion":      {file: "{kind: ConfigMap}", err: "f:1: document 1: ConfigMap has no apiVersion"},
		"no kind":            {file: "{apiVersion: v1}", err: "f:1: document 1: has no kind"},
		"no name":            {file: "{apiVersion: v1, kind: ConfigMap}", err: "f:1: document 1: ConfigMap has no metadata.name"},
		"a name in part":     {file: "{apiVersion: v1, kind: Pod, metadata: {generateName: a-}}", err: "f:1: document 1: Pod has generateName, but no name"},
		"a name that is one": {file: "{apiVersion: v1, kind: Pod, metadata: {name: 1}}", err: "f:1: document 1: Pod: metadata.name is not a text; quote it"},
		"metadata as text":   {file: "{apiVersion: v1, kind: Pod, metadata: a}", err: "f:1: document 1: Pod: metadata is not an object"},
		"a malformed group":  {file: "{apiVersion: a/b/c, kind: Pod, metadata: {name: a}}", err: `f:1: document 1: Pod a: apiVersion "a/b/c" is malformed`},
		"a key given twice":  {file: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: x, a: y}\n", err: `f:1: document 1: line 4: key "a" already set in map`},
		"malformed YAML":     {file: "---\nb: 1\n---\na: [\n", err: "f:2: document 1: has neither apiVersion nor kind: is it a Kubernetes object?\nf:4: document 2: line 4: did not find expected node content"},
		"a document on the line of its dashes": {
			file: "%YAML 1.2\n--- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n...\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n",
			want: []string{"f:2: document 1 ConfigMap/a", "f:4: document 2 ConfigMap/b"},
		},
		"an item that is no object": {
			file: "{apiVersion: v1, kind: List, items: [a, {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}]}",
			want: []string{"f:1: document 1, items[1] ConfigMap/b"}, err: "f:1: document 1: items[0] is not an object",
		},
		"every fault at once": {
			file: "{kind: A}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: ok}}\n---\n{apiVersion: v1}\n",
			want: []string{"f:3: document 2 ConfigMap/ok"}, err: "f:1: document 1: A has no apiVersion\nf:5: document 3: has no kind",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := decode(text(tt.file))
			if tt.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, tt.err)
			}
			require.Equal(t, tt.want, ids(got))
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n")
	f.Add("---\n--- #\n{\"a\": 1}")
	f.Add("apiVersion: v1\nkind: A\nmetadata: {name: &a x, namespace: *a}\n")
	f.Fuzz(func(t *testing.T, file string) {
		ms, _ := decode(text(file))
		for _, m := range ms {
			if m.GetName() == "" || m.GetKind() == "" || m.GetAPIVersion() == "" {
				t.Errorf("%s has no name, kind or apiVersion", m.Source)
			}
			m.DeepCopy() // panics on values that Kubernetes does not know
		}
	})
}

func TestInlineNumbersAreThoseOfKubernetes(t *testing.T) {
	ms, err := inline([]map[string]any{{
		"apiVersion": "v1", "kind": "Widget", "metadata": map[string]any{"name": "a", "managedFields": []any{map[string]any{}}},
		"spec": map[string]any{"n": 3, "f": 1.5, "big": uint64(1) << 40},
	}})
	require.NoError(t, err)
	require.Equal(t, []string{"objects[0] Widget/a"}, ids(ms))
	require.Equal(t, map[string]any{"n": int64(3), "f": 1.5, "big": int64(1) << 40}, ms[0].Object["spec"])
	require.Empty(t, ms[0].GetManagedFields(), "the API server refuses them in an apply")

	_, err = inline([]map[string]any{{"kind": "A"}, {"apiVersion": "v1"}})
	require.EqualError(t, err, "objects[0]: A has no apiVersion\nobjects[1]: has no kind")
}

func TestDuplicates(t *testing.T) {
	ms, err := decode(text(`
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
---
{apiVersion: v1, kind: Secret, metadata: {name: a}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: other}}
---
{apiVersion: v2, kind: ConfigMap, metadata: {name: a, namespace: app}}
`))
	require.NoError(t, err)
	require.EqualError(t, CheckDuplicates(ms, "app"), "f:8: document 4: ConfigMap/app/a is given twice, first in f:2: document 1")
	require.NoError(t, CheckDuplicates(ms, "third"))
}
