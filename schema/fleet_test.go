package schema_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/schema"
)

// Events of each type, as Go writes them, are valid; others are not.
func TestFleetEvents(t *testing.T) {
	s := compile(t, schema.FleetEvents)
	now := time.Date(2026, 11, 25, 3, 0, 0, 0, time.UTC)
	two := 2
	cause := fleet.NewCause(fleet.Unreachable, "", "no answer")
	for _, e := range []fleet.Event{
		{
			Type: fleet.TypeFleet, Version: 1, Fleet: "f", Plan: "p", Run: "r", Engine: "local", Digest: "sha256:0", By: "a@b", Round: 1,
			Waves: []fleet.WaveInfo{{Name: "w", Parallel: 1, Clusters: 1}}, Clusters: []fleet.ClusterInfo{{Name: "c", Wave: "w"}}, Limits: &fleet.Limits{SameCause: &two},
		},
		{Type: fleet.TypeWave, Wave: "w", WaveState: fleet.WaveSoaking, Until: now},
		{Type: fleet.TypeCluster, Cluster: "c", State: fleet.Holding, Attempt: 1, Hold: &fleet.Hold{Webhook: "v"}, Progress: &fleet.Progress{Total: 3}},
		{Type: fleet.TypeCluster, Cluster: "c", State: fleet.Failed, Result: &fleet.Result{State: fleet.Failed, Started: now, Cause: cause, Steps: map[string]int{"failed": 1}}},
		{Type: fleet.TypeControl, Control: &fleet.Control{Paused: true}, By: "a@b"},
		{Type: fleet.TypeStop, Reason: &fleet.Stop{Kind: fleet.StopCause, Cause: cause, Failed: 3, Allowed: 2}},
		{Type: fleet.TypeResume, Round: 2},
		{Type: fleet.TypeMessage, Message: "m"},
		{Type: fleet.TypeDone, RunState: fleet.Failed, Counts: map[fleet.State]int{fleet.Failed: 1}},
	} {
		e.Seq, e.Time = 1, now
		b, err := json.Marshal(e)
		require.NoError(t, err)
		require.NoError(t, validate(t, s, string(b)), "%s", b)
	}
	for name, line := range map[string]string{
		"no number":              `{"time":"2026-01-01T00:00:00Z","type":"message","message":"m"}`,
		"no such type":           `{"seq":1,"time":"2026-01-01T00:00:00Z","type":"lag"}`,
		"a wave without a state": `{"seq":1,"time":"2026-01-01T00:00:00Z","type":"wave","wave":"w"}`,
		"no such state":          `{"seq":1,"time":"2026-01-01T00:00:00Z","type":"cluster","cluster":"c","state":"good"}`,
		"a hold of nothing":      `{"seq":1,"time":"2026-01-01T00:00:00Z","type":"cluster","cluster":"c","hold":{}}`,
		"a fleet of no clusters": `{"seq":1,"time":"2026-01-01T00:00:00Z","type":"fleet","version":1,"fleet":"f"}`,
	} {
		require.Error(t, validate(t, s, line), name)
	}
}
