package steps_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// A denial is an answer: it ends the step at once, whatever its retries, with
// the object and the webhook's own words. Helm and apply say the same.
func TestDenialIsFinal(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	ns := lab.Namespace(t)
	chart := chartOf(t, map[string]string{"gadget.yaml": `
apiVersion: lab.kplan.dev/v1
kind: Gadget
metadata: {name: by-helm}
spec: {deny: true}
`})

	out := runPlan(t, lab, ns, `
- name: operator
  helm: {chart: CHARTS/race, release: NS, namespace: NS, values: {listenDelay: 1s, guarded: {gadgets: 0, widgets: 0}}}
- name: by-apply
  needs: [operator]
  retry: {install_retries: 3}
  apply:
    namespace: NS
    objects: [{apiVersion: lab.kplan.dev/v1, kind: Gadget, metadata: {name: by-apply}, spec: {deny: true}}]
- name: by-helm
  needs: [operator]
  retry: {install_retries: 3}
  helm: {chart: `+chart+`, release: NS-denied, namespace: NS}
- name: after
  needs: [by-apply]
  wait: {resource: pod/x, for: delete}
`)

	require.Error(t, out.err)
	for _, name := range []string{"by-apply", "by-helm"} {
		step := out.execution.Step(name)
		require.Equal(t, runner.StateFailed, step.State)
		require.Equal(t, 1, step.Attempt, "another attempt cannot mend it")
		require.Contains(t, step.Error, "Gadget/"+ns+"/"+name+`: admission webhook "validate.race.lab.kplan.dev" denied the request: `)
		require.NotEmpty(t, step.Hint)
	}
	require.Equal(t, runner.StateBlocked, out.execution.Step("after").State)
}
