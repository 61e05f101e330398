package steps_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// Whatever keeps the webhook of a chart from answering, the chart is installed
// in one attempt, as revision 1.
func TestHoldEndsEveryPhaseInOneAttempt(t *testing.T) {
	lab := labtest.Node(t)
	lab.Operator(t)
	for name, tc := range map[string]struct {
		values string
		more   string // further steps
	}{
		"late certificate": {values: "{listenDelay: 0s, certificate: {mode: self}, operator: {certDelay: 3s}}"},
		"late injection of the CA bundle": {
			values: "{listenDelay: 0s, certificate: {mode: self}, operator: {injectDelay: 3s, lyingHealth: true}}",
		},
		"ready before it listens": {values: "{listenDelay: 4s, operator: {lyingHealth: true}}"},
		"crashes at first":        {values: "{listenDelay: 0s, operator: {crash: 1, crashAfter: 1s}}"},
		"answers 404 at first":    {values: "{listenDelay: 0s, operator: {answer: 404, answerFor: 4s}}"},
		"its Service comes late": {
			values: "{listenDelay: 0s, webhook: {service: late}}",
			more: `
- name: operator
  wait: {resource: deployment/NS, namespace: NS, for: condition=Available}
- name: service
  needs: [operator]
  apply: {objects: [{apiVersion: v1, kind: Service, metadata: {name: late, namespace: NS}, spec: {
    selector: {app.kubernetes.io/instance: NS}, ports: [{port: 443, targetPort: 9443}]}}]}
`,
		},
		"forty objects at once": {values: "{listenDelay: 3s, guarded: {gadgets: 0, widgets: 40}}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := 0
			// On a busy machine the API server may not know the webhook yet when the objects
			// come, and admits them unseen: then there was nothing to hold.
			for try := 0; try < 3 && held == 0; try++ {
				ns := lab.Namespace(t)
				run := runPlan(t, lab, ns, fmt.Sprintf(`
- name: race
  helm: {chart: CHARTS/race, release: NS, namespace: NS, values: %s}
%s`, tc.values, tc.more))

				require.NoError(t, run.err)
				step := run.execution.Step("race")
				require.Equal(t, runner.StateSucceeded, step.State)
				require.Equal(t, 1, step.Attempt)
				require.Equal(t, 1, step.Revision)
				held = len(run.of(runner.TypeHeld))
				for _, e := range run.of(runner.TypeReleased) {
					require.Empty(t, e.Error)
				}
			}
			require.Positive(t, held)
		})
	}
}
