package steps_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// Templates ask whether the kinds of the chart's crds folder are served: they are by then,
// whatever the step waits for. The command of Helm 4 does not see to it.
func TestDefinitionsOfTheChartAreServedWhenItIsRendered(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	for _, engine := range []string{"helm3", "helm4"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			ns := lab.Namespace(t)
			dropDefinitions(t, lab, "things."+ns+".kplan.dev")
			chart := chartOf(t, map[string]string{
				"asks.yaml": `{{ if .Capabilities.APIVersions.Has "` + ns + `.kplan.dev/v1/Thing" }}
{apiVersion: v1, kind: ConfigMap, metadata: {name: served}}
{{ end }}`,
			})
			require.NoError(t, os.MkdirAll(filepath.Join(chart, "crds"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(chart, "crds", "things.yaml"), []byte(definition(ns, "things", "Thing", "thing")), 0o600))

			out := runPlan(t, lab, ns, "\n- name: chart\n  helm: {chart: "+chart+", release: NS, namespace: NS, engine: "+engine+"}\n")

			require.NoError(t, out.err)
			_, err := lab.Clientset(t).CoreV1().ConfigMaps(ns).Get(t.Context(), "served", metav1.GetOptions{})
			require.NoError(t, err)
		})
	}
}
