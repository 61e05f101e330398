package lint_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/fleet/lint"
	"github.com/kplan-dev/kplan/fleet/load"
)

const head = "apiVersion: kplan.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f}\nplan: {file: plan.yaml}\ninventory: [{contexts: {}}]\n"

func TestRules(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string // rules, with the line after the head
	}{
		{"careful", "waves:\n- {name: a, select: 'cluster.name == \"x\"', soak: 1m}\n- {name: b, max_failures: 2%}\nbudget: {same_cause: 1}\n", nil},
		{"approved", "waves:\n- {name: a, select: 'cluster.name == \"x\"'}\n- {name: b, approve: true}\n", nil},
		{"one at a time", "waves: [{name: a, parallel: 1}]\n", nil},
		{"at once", "waves: [{name: a}]\n", []string{"all-at-once"}},
		{"hasty", "waves:\n- {name: a, select: 'cluster.name == \"x\"'}\n- {name: b}\n", []string{"no-time-to-look"}},
		{
			"careless", "waves:\n- {name: a, select: 'cluster.name == \"x\"', soak: 1m, max_failures: 1}\n- {name: b, max_failures: 100%}\n",
			[]string{"canary-may-fail", "never-stops", "no-budget"},
		},
		{"no share", "waves:\n- {name: a, select: 'cluster.name == \"x\"', soak: 1m, max_failures: 0%}\n- {name: b}\n", nil},
		{"latest", "waves: [{name: a, parallel: 1}]\nengine: {kubernetes: {namespace: k, image: 'host:5000/kplan:latest'}}\n", []string{"unpinned-image"}},
		{"no tag", "waves: [{name: a, parallel: 1}]\nengine: {kubernetes: {namespace: k, image: 'host:5000/kplan'}}\n", []string{"unpinned-image"}},
		{"tag", "waves: [{name: a, parallel: 1}]\nengine: {kubernetes: {namespace: k, image: 'host:5000/kplan:v1'}}\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := load.Parse("fleet.yaml", []byte(head+c.text))
			require.NoError(t, err)
			var rules []string
			for _, x := range lint.Run(f.Fleet, f) {
				rules = append(rules, x.Rule)
				require.Greater(t, x.Line, 5, "it stands where the fault is")
				require.NotEmpty(t, x.Hint)
			}
			require.Equal(t, c.want, rules)
			require.Empty(t, lint.Run(f.Fleet, f, c.want...))
		})
	}
}
