package fleet_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/fleet"
)

// What one fault says on two clusters is one cause; what two faults say is two.
func TestCauseText(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{
			"prod/east-1", `cluster target (https://10.1.2.3:6443): dial tcp 10.1.2.3:6443: connect: connection refused`,
			`cluster target (URL): dial tcp ADDRESS: connect: connection refused`,
		},
		{"east", `timed out after 5m0s: webhook "v.eso": 0 of 1 endpoints ready; pod eso-7d9f8c6b54-x2v9k waits`, `timed out after TIME: webhook "v.eso": N of M endpoints ready; pod eso-… waits`},
		{"east-1", `namespace east-1 has no room, and east-12 has`, `namespace CLUSTER has no room, and east-12 has`},
		{"x", "a  text\nof two lines", "a text of two lines"},
		{"c1", `certificate for 2026-11-25T02:00:00Z, UID 5f0c6f0e-1f3c-4f0a-9d4c-3b1a2c4d5e6f`, `certificate for TIME, UID UID`},
		{"c1", `dial tcp [fd00::1]:443: i/o timeout`, `dial tcp ADDRESS: i/o timeout`},
		{
			"c1", "plan p is being run by another: run 20261125-025212-27d29f of root on vm (pid 733), since 2026-11-25T02:52:12Z, last heard of at 2026-11-25T02:52:12Z",
			"plan p is being run by another: run RUN of root on vm (pid N), since TIME, last heard of at TIME",
		},
		{"c1", "chart operator-1.2.3 has no version 4", "chart operator-1.2.3 has no version 4"},
	} {
		require.Equal(t, c.want, fleet.NewCause(fleet.StepFailed, "s", c.text, c.name).Text, c.text)
	}
}

func TestLimit(t *testing.T) {
	for _, c := range []struct {
		json      string
		of30, of1 int
	}{{"0", 0, 0}, {"3", 3, 3}, {`"2%"`, 0, 0}, {`"10%"`, 3, 0}, {`"33.4%"`, 10, 0}, {`"100%"`, 30, 1}} {
		var l fleet.Limit
		require.NoError(t, json.Unmarshal([]byte(c.json), &l))
		require.Equal(t, []int{c.of30, c.of1}, []int{l.Of(30), l.Of(1)}, c.json)
		back, err := json.Marshal(l)
		require.NoError(t, err)
		require.Equal(t, c.json, string(back))
	}
	exact, err := fleet.ParseLimit("0.57%")
	require.NoError(t, err)
	require.Equal(t, 57, exact.Of(10_000))
	for _, bad := range []string{"-1", `"-1%"`, `"101%"`, `"many"`, "1.5", `"NaN%"`, `""`} {
		require.Error(t, json.Unmarshal([]byte(bad), new(fleet.Limit)), bad)
	}
}

// A rollout's digest is of all that it says, and not of the engine that runs it.
func TestDigest(t *testing.T) {
	r := fleet.Rollout{
		Waves:    []fleet.WaveInfo{{Name: "w"}},
		Clusters: []fleet.Cluster{{Name: "b", Wave: "w"}, {Name: "a", Wave: "w", Vars: map[string]any{"x": "1"}}},
	}
	require.False(t, r.Sealed())
	r.Seal()
	require.True(t, r.Sealed())
	require.Equal(t, "a", r.Clusters[0].Name)
	r.Engine = "kubernetes"
	require.True(t, r.Sealed())
	r.Cluster("a").Vars["x"] = "2"
	require.False(t, r.Sealed())
}

// Whether a connection that was closed ends by a reset or not depends on the moment.
func TestClosedConnectionsAreOneCause(t *testing.T) {
	var texts []string
	for _, text := range []string{"c cannot be reached: EOF", "c cannot be reached: read tcp 127.0.0.1:1->127.0.0.1:2: read: connection reset by peer", "c cannot be reached: unexpected EOF"} {
		texts = append(texts, fleet.NewCause(fleet.Unreachable, "", text).Text)
	}
	require.Equal(t, []string{"c cannot be reached: the connection was closed", texts[0], texts[0]}, texts)
}
