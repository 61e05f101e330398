package probe

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

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
