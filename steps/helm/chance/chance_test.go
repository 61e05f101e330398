package chance_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/steps/helm/chance"
)

func objects(t *testing.T, documents ...string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for _, d := range documents {
		u := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(d), &u.Object))
		out = append(out, u)
	}
	return out
}

const (
	cert  = "{apiVersion: v1, kind: Secret, metadata: {name: cert, namespace: ns}, data: {crt: "
	other = "{apiVersion: v1, kind: ConfigMap, metadata: {name: other, namespace: ns}, data: "
	pod   = "{apiVersion: v1, kind: Pod, metadata: {namespace: ns, name: test-"
	list  = "{apiVersion: v1, kind: Hook, metadata: {name: hook, namespace: ns}, webhooks: [{name: a, ca: "
)

func TestDifferences(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		there, first, second []string
		random, want         []string
	}{
		"nothing differs": {
			there: []string{other + "{a: b}}"}, first: []string{other + "{a: b}}"}, second: []string{other + "{a: b}}"},
		},
		"what is by chance does not count": {
			there:  []string{cert + "one}}", list + "one}]}", other + "{a: b}}"},
			first:  []string{cert + "two}}", list + "two}]}", other + "{a: b}}"},
			second: []string{cert + "three}}", list + "three}]}", other + "{a: b}}"},
			random: []string{"Hook/ns/hook", "Secret/ns/cert"},
		},
		"what is beside it does": {
			there:  []string{cert + "one}}"},
			first:  []string{cert + "two, more: new}}"},
			second: []string{cert + "three, more: new}}"},
			random: []string{"Secret/ns/cert"},
			want:   []string{"Secret/ns/cert: data.more"},
		},
		"a list of another length": {
			there:  []string{other + "{a: [1]}}"},
			first:  []string{other + "{a: [1, 2]}}"},
			second: []string{other + "{a: [1, 2]}}"},
			want:   []string{"ConfigMap/ns/other: data.a"},
		},
		"fields that come and go": {
			there:  []string{other + "{a: b, gone: x}}"},
			first:  []string{other + "{a: b, come: x}}"},
			second: []string{other + "{a: b, come: x}}"},
			want:   []string{"ConfigMap/ns/other: data.gone, data.come"},
		},
		"objects that come and go": {
			there: []string{cert + "one}}"}, first: []string{other + "{a: b}}"}, second: []string{other + "{a: b}}"},
			want: []string{"ConfigMap/ns/other is new", "Secret/ns/cert is left out"},
		},
		"names by chance": {
			there: []string{pod + "aaa}}"}, first: []string{pod + "bbb}}"}, second: []string{pod + "ccc}}"},
			random: []string{"Pod/ns/test-bbb"},
		},
		"more names by chance than there were": {
			there: []string{pod + "aaa}}"}, first: []string{pod + "bbb}}", pod + "ddd}}"}, second: []string{pod + "ccc}}", pod + "eee}}"},
			random: []string{"Pod/ns/test-bbb", "Pod/ns/test-ddd"},
			want:   []string{"v1 Pod/ns: 1 more"},
		},
		"another version": {
			there: []string{"{apiVersion: a/v1, kind: A, metadata: {name: a, namespace: ns}}"}, first: []string{"{apiVersion: a/v2, kind: A, metadata: {name: a, namespace: ns}}"},
			second: []string{"{apiVersion: a/v2, kind: A, metadata: {name: a, namespace: ns}}"},
			want:   []string{"A/ns/a is new", "A/ns/a is left out"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			there, first, second := objects(t, tc.there...), objects(t, tc.first...), objects(t, tc.second...)
			require.Equal(t, tc.random, chance.Random(first, second))
			require.Equal(t, tc.want, chance.Differences(there, first, second))
		})
	}
}
