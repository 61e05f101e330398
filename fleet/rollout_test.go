package fleet_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/fleet"
)

// A variable of a whole number takes no other: a rollout that is read again has the same
// values as before.
func TestWholeNumbersStayWhole(t *testing.T) {
	vars := map[string]any{"size": int64(3), "large": int64(1)<<60 + 1, "share": 0.5, "list": []any{int64(1), map[string]any{"x": int64(2)}}, "text": "3", "none": nil}
	r := &fleet.Rollout{Waves: []fleet.WaveInfo{{Name: "w"}}, Clusters: []fleet.Cluster{{Name: "a", Wave: "w", Vars: vars}}}
	r.Seal()
	text, err := json.Marshal(r)
	require.NoError(t, err)
	var again fleet.Rollout
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, vars, again.Clusters[0].Vars)
	require.True(t, again.Sealed())
}
