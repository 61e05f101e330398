package runner

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A request that is still held counts: a run may be looked at before its end, or its
// record may end early.
func TestHoldsThatLast(t *testing.T) {
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	hook := &Webhook{Name: "w"}
	x := &Execution{}
	for _, e := range []Event{
		{Type: TypePlan, Plan: "p", Steps: []StepInfo{{Name: "s"}}},
		{Type: TypeState, Step: "s", State: StateRunning},
		{Type: TypeHeld, Step: "s", Object: "A/a", Webhook: hook},
		{Type: TypeHeld, Step: "s", Object: "A/b", Webhook: hook},
		{Type: TypeReleased, Step: "s", Object: "A/a", Webhook: &Webhook{Name: "w", Sends: 2}},
		{Type: TypeProgress, Step: "s", Message: "waits"},
	} {
		start = start.Add(time.Second)
		e.Time = start
		x.Apply(e)
	}
	b, err := json.Marshal(x)
	require.NoError(t, err)
	var summary struct {
		Steps []struct{ Holds []map[string]any }
	}
	require.NoError(t, json.Unmarshal(b, &summary))
	require.Equal(t, []map[string]any{{
		"webhook": "w", "requests": 2.0, "sends": 2.0, "total_seconds": 4.0, "longest_seconds": 2.0,
	}}, summary.Steps[0].Holds)
}
