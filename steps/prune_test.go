package steps_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// An object that has moved to a chart of the plan is not pruned, whether the chart's step
// is known yet, is not picked, or cannot be rendered before it runs.
func TestPruneLeavesWhatAChartHas(t *testing.T) {
	t.Parallel()
	const moved = "{apiVersion: v1, kind: ConfigMap, metadata: {name: moved}}"
	asks := "\n    values: {token: \"${{ steps.objects.outputs.token }}\"}"
	for name, tt := range map[string]struct {
		template, values string
		skip             bool
		says             string
	}{
		"that is known":                       {template: moved, says: "the step chart has it now"},
		"that is not picked":                  {template: moved, skip: true, says: "the step chart has it now"},
		"that waits for a value":              {template: moved, values: asks, says: "the step chart has it now"},
		"that cannot be rendered without one": {template: "{{- $_ := required \"a token\" .Values.token }}\n" + moved, values: asks, says: "it is not known yet what the step chart has"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab := labtest.ControlPlane(t)
			ns := lab.Namespace(t)
			objects := func(names ...string) string {
				var all []string
				for _, name := range names {
					all = append(all, "{apiVersion: v1, kind: ConfigMap, metadata: {name: "+name+"}, data: {token: t}}")
				}
				return "\n- name: objects\n  outputs: {token: {resource: configmap/kept, jsonpath: \"{.data.token}\", namespace: NS}}\n" +
					"  apply: {prune: true, namespace: NS, objects: [" + strings.Join(all, ", ") + "]}\n"
			}
			require.NoError(t, runPlan(t, lab, ns, objects("kept", "moved")).err)
			p := planOf(t, lab, ns, objects("kept")+"- name: chart\n  needs: [objects]\n  helm:\n    chart: "+
				chartOf(t, map[string]string{"moved.yaml": tt.template})+"\n    release: NS\n    namespace: NS"+tt.values+"\n")
			if tt.skip {
				require.NoError(t, p.Select(plan.Selection{Only: []string{"objects"}}))
			}

			out := runSteps(t, lab, ns, "", steps.Config{Plan: p})

			require.Equal(t, runner.StateUnchanged, out.execution.Step("objects").State, "%v", out.err)
			var logs []string
			for _, e := range out.of(runner.TypeLog) {
				logs = append(logs, e.Message)
			}
			require.Contains(t, strings.Join(logs, "\n"), "ConfigMap/"+ns+"/moved stays: "+tt.says)
			_, err := lab.Clientset(t).CoreV1().ConfigMaps(ns).Get(t.Context(), "moved", metav1.GetOptions{})
			require.NoError(t, err)
		})
	}
}
