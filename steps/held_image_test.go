package steps_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// A hold ends when none of the webhook's pods gets its image, long before its timeout and
// with the pod's reason.
func TestHoldEndsForAnImage(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	ns := lab.Namespace(t)
	out := runPlan(t, lab, ns, "\n- name: webhook\n  timeout: 3m\n  apply: {files: ["+files(t, ns, map[string]string{"web.yaml": `
apiVersion: v1
kind: Service
metadata: {name: nobody}
spec: {selector: {app: nobody}, ports: [{port: 443}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: nobody}
spec:
  selector: {matchLabels: {app: nobody}}
  template:
    metadata: {labels: {app: nobody}}
    spec: {containers: [{name: c, image: "kplan.dev/nowhere:1", imagePullPolicy: Never}]}
`})+"/web.yaml], namespace: NS}\n")
	require.NoError(t, out.err)
	unanswered(t, lab, ns, "a")
	out = runPlan(t, lab, ns, `
- name: s
  timeout: 5m
  apply: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: judged, namespace: NS, labels: {judged-by: a}}}]}
`)
	require.ErrorContains(t, out.err, "is in ErrImageNeverPull")
	require.Contains(t, runner.HintOf(out.err), "imagePullPolicy: Never")
	require.Less(t, out.execution.Elapsed(), time.Minute)
}
