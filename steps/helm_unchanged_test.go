package steps_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// An umbrella chart that nobody changed is left alone, whatever the order in
// which its subcharts are read: a new revision would bring new certificates
// under the webhooks that run.
func TestHelmStepLeavesAnUmbrellaAlone(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	want := runner.StateSucceeded
	for range 6 {
		out := runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: CHARTS/umbrella, release: NS, namespace: NS}\n")

		require.NoError(t, out.err)
		require.Equal(t, want, out.execution.Step("s").State)
		require.Equal(t, 1, out.execution.Step("s").Revision)
		want = runner.StateUnchanged
	}
}
