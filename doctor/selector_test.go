package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Two selectors are disjoint when two of their requirements contradict each other.
func TestDisjoint(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b     string
		disjoint bool
	}{
		{"{}", "{}", false},
		{"{matchLabels: {team: a}}", "{}", false},
		{"{matchLabels: {team: a}}", "{matchLabels: {team: a}}", false},
		{"{matchLabels: {team: a}}", "{matchLabels: {team: b}}", true},
		{"{matchLabels: {team: a}}", "{matchLabels: {rev: b}}", false},
		{"{matchLabels: {team: a}}", "{matchExpressions: [{key: team, operator: In, values: [a, b]}]}", false},
		{"{matchLabels: {team: a}}", "{matchExpressions: [{key: team, operator: NotIn, values: [a, b]}]}", true},
		{"{matchExpressions: [{key: team, operator: In, values: [a, c]}]}", "{matchExpressions: [{key: team, operator: NotIn, values: [a, b]}]}", false},
		{"{matchLabels: {team: a}}", "{matchExpressions: [{key: team, operator: DoesNotExist}]}", true},
		{"{matchExpressions: [{key: team, operator: Exists}]}", "{matchExpressions: [{key: team, operator: DoesNotExist}]}", true},
		{"{matchExpressions: [{key: team, operator: NotIn, values: [a]}]}", "{matchExpressions: [{key: team, operator: DoesNotExist}]}", false},
		{"{matchExpressions: [{key: team, operator: NotIn, values: [a]}]}", "{matchExpressions: [{key: team, operator: NotIn, values: [b]}]}", false},
	} {
		var a, b metav1.LabelSelector
		require.NoError(t, yaml.Unmarshal([]byte(test.a), &a))
		require.NoError(t, yaml.Unmarshal([]byte(test.b), &b))
		require.Equal(t, test.disjoint, disjoint(&a, &b), "%s and %s", test.a, test.b)
		require.Equal(t, test.disjoint, disjoint(&b, &a), "%s and %s", test.b, test.a)
		require.False(t, disjoint(&a, nil), "a selector that is missing selects all")
	}
}
