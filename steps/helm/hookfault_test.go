package helm

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the last lines of a hook's log mean, with the values of its release. The lines
// are those of Helm, of kubectl and of charts that call them.
func TestOfLog(t *testing.T) {
	catalog := map[string]any{
		"chart": "minio:14.1.2", "image": "alpine/helm:3.14.0",
		"repo": map[string]any{"name": "k0rdent-catalog", "spec": map[string]any{"type": "oci", "url": "oci://user:word@ghcr.io/k0rdent/catalog/charts/"}},
	}
	for name, tc := range map[string]struct {
		values map[string]any
		lines  []string
		want   string
	}{
		"by the line of the chart's own script": {
			catalog,
			[]string{"Chart minio:14.1.2 does not exist or cannot be pulled"},
			"chart minio:14.1.2 is not in oci://ghcr.io/k0rdent/catalog/charts",
		},
		"by Helm's line": {
			catalog,
			[]string{`Error: failed to perform "FetchReference" on source: ghcr.io/k0rdent/other/minio:14.1.2: not found`},
			"chart minio:14.1.2 is not in oci://ghcr.io/k0rdent/other",
		},
		"in an HTTP repository": {
			nil,
			[]string{`Error: chart "minio" version "14.1.2" not found in https://charts.example.com repository`},
			"chart minio:14.1.2 is not in https://charts.example.com",
		},
		"without a repository in the values": {
			map[string]any{"a": "oci://a.example/x", "b": "oci://b.example/y"},
			[]string{"chart minio:14.1.2 not found"},
			"chart minio:14.1.2 is not in its repository",
		},
		"behind a registry that wants a password": {
			catalog,
			[]string{`Error: GET "https://ghcr.io/v2/": response status code 401: unauthorized`, "Chart minio:14.1.2 does not exist or cannot be pulled"},
			"chart minio:14.1.2 cannot be had: no access to oci://ghcr.io/k0rdent/catalog/charts",
		},
		"behind a registry that does not answer": {
			catalog,
			[]string{"Error: failed to do request: dial tcp 10.0.0.1:443: connect: connection refused", "Chart minio:14.1.2 does not exist or cannot be pulled"},
			"chart minio:14.1.2 cannot be had: nobody answers at oci://ghcr.io/k0rdent/catalog/charts",
		},
		"another thing with a version": {nil, []string{"postgres:16.1.0: not found"}, ""},
		"a chart that is there":        {catalog, []string{"Chart minio:14.1.2 exists"}, ""},
		"a right that is missing": {
			nil,
			[]string{`Error from server (Forbidden): secrets is forbidden: User "system:serviceaccount:demo:check" cannot list resource "deployments" in API group "apps" in the namespace "demo"`},
			"the hook's service account demo/check has no right to list deployments.apps",
		},
		"nothing": {catalog, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, (&hookError{errors.New("failed"), tc.values}).OfLog(tc.lines))
		})
	}
}

func TestValuesOverTheCharts(t *testing.T) {
	own := map[string]any{"a": map[string]any{"b": 1, "c": 2}, "d": 3}
	got := over(map[string]any{"a": map[string]any{"b": 4}, "d": map[string]any{"e": 5}}, own)
	require.Equal(t, map[string]any{"a": map[string]any{"b": 4, "c": 2}, "d": map[string]any{"e": 5}}, got)
	require.Equal(t, map[string]any{"a": map[string]any{"b": 1, "c": 2}, "d": 3}, own)
}
