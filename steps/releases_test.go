package steps_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/steps/analyze"
)

// The releases of a cluster, as they were installed, and in which order they must
// have been.
func TestReleases(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	ns := lab.Namespace(t)
	out := runPlan(t, lab, ns, `
- name: operator
  helm: {chart: CHARTS/race, release: NS, namespace: NS, values: {listenDelay: 1s, guarded: {gadgets: 0, widgets: 0}}}
- name: objects
  needs: [operator]
  helm: {chart: CHARTS/guarded, release: a-guarded, namespace: NS, values: {gadgets: 2, widgets: 1, certificates: 0}}
- name: objects-again
  needs: [objects]
  helm: {chart: CHARTS/guarded, release: a-guarded, namespace: NS, values: {gadgets: 3, widgets: 1, certificates: 0}}
`)
	require.NoError(t, out.err)

	flags := lab.Flags()
	flags.Namespace = &ns
	all, err := analyze.Releases(t.Context(), flags, "kplan-test", false)

	require.NoError(t, err)
	require.Len(t, all, 2, "one for each release, at its last revision")
	guarded, operator := all[0], all[1]
	require.Equal(t, []string{"a-guarded", ns, "guarded", "0.1.0", "deployed"}, []string{guarded.Name, guarded.Namespace, guarded.Chart, guarded.Version, guarded.Status})
	require.Equal(t, map[string]any{"gadgets": 3.0, "widgets": 1.0, "certificates": 0.0}, guarded.Values)
	require.Equal(t, []analyze.ReleaseNeed{{Index: 1, Why: "its webhooks judge 4 objects of this release"}}, guarded.Needs)
	require.Equal(t, ns, operator.Name)
	require.Empty(t, operator.Needs)
}
