package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who looks at what runs did need not give the values that they were given.
func TestRecordsTakeNoVariables(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "plan.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: shop}
vars: {registry: {type: string, required: true}}
steps: [{name: shop, helm: {chart: "oci://${{ vars.registry }}/shop", version: 1.0.0}}]
`), 0o600))

	out, err := command(t, "history", file, "--from", "local").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "no run of plan shop is recorded\n", string(out))

	out, err = command(t, "replay", file, "--from", "local").CombinedOutput()
	require.Error(t, err)
	require.NotContains(t, string(out), "registry")
	require.Contains(t, string(out), "no run of plan")
}
