package steps_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// A webhook whose Deployment is scaled to 0 is waited for in vain, and the error says
// that it is, and how to change it.
func TestWebhookOfADeploymentThatIsScaledToZero(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	unanswered(t, lab, ns, "a")
	out := runPlan(t, lab, ns, `
- name: idle
  apply:
    wait: none
    objects:
    - {apiVersion: v1, kind: Service, metadata: {name: nobody, namespace: NS}, spec: {selector: {app: web}, ports: [{port: 443}]}}
    - apiVersion: apps/v1
      kind: Deployment
      metadata: {name: other, namespace: NS}
      spec: {replicas: 0, selector: {matchLabels: {app: other}}, template: {metadata: {labels: {app: other}}, spec: {containers: [{name: c, image: none}]}}}
    - apiVersion: apps/v1
      kind: Deployment
      metadata: {name: web, namespace: NS}
      spec: {replicas: 0, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: none}]}}}
- {name: gate, needs: [idle], timeout: 3s, webhook: {configuration: NS}}
`)
	require.ErrorContains(t, out.err, "backed: no endpoints; Deployment web is scaled to 0")
	hint := runner.HintOf(out.err)
	require.Contains(t, hint, "kubectl scale -n "+ns+" deployment/web --replicas=1")
	require.NotContains(t, hint, "other labels")
}
