package steps_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
)

// A value that the chart's schema refuses is told where it was given, and another attempt
// is not made.
func TestHelmStepTellsWhereAValueIsRefused(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	c := read(t, "testdata/charts/schema.txtar")
	s := c.side(t, lab, "")
	values := filepath.Join(s.dir, "v.yaml")
	require.NoError(t, os.WriteFile(values, []byte("size: 3\nname: secret-of-mine\n"), 0o600))

	err := runPlan(t, lab, ns, "\n- name: s\n  retry: {install_retries: 3, retry_delay_seconds: 60}\n  helm:\n    chart: "+filepath.Join(s.dir, "chart")+
		"\n    release: NS\n    namespace: NS\n    values_files: ["+values+"]\n    values:\n      size: many\n").err

	require.ErrorContains(t, err, "plan.yaml:13:13: size: got string, want integer")
	require.ErrorContains(t, err, "v.yaml:2:7: name: value must be one of")
	require.NotContains(t, err.Error(), "secret-of-mine")
	require.True(t, runner.IsPermanent(err))
}
