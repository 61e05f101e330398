package report

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestJSONHasTheSummary checks that all that kplan run -o json writes has the same
// name and value in the report.
func TestJSONHasTheSummary(t *testing.T) {
	for name, l := range recorded(t) {
		t.Run(name, func(t *testing.T) {
			b, err := json.Marshal(l.Execution())
			require.NoError(t, err)
			var summary, report map[string]any
			require.NoError(t, json.Unmarshal(b, &summary))
			require.NoError(t, json.Unmarshal(write(t, JSON, l, meta), &report))
			require.InDelta(t, JSONVersion, report["version"], 0)
			within(t, "", summary, report)
		})
	}
}

// within checks that b has all that a has.
func within(t *testing.T, path string, a, b any) {
	t.Helper()
	switch a := a.(type) {
	case map[string]any:
		m, ok := b.(map[string]any)
		require.True(t, ok, path)
		for k, v := range a {
			within(t, path+"."+k, v, m[k])
		}
	case []any:
		l, ok := b.([]any)
		require.True(t, ok, path)
		require.Len(t, l, len(a), path)
		for i, v := range a {
			within(t, path+"[]", v, l[i])
		}
	default:
		require.Equal(t, a, b, path)
	}
}
