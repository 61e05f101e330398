package kubernetes_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/fleet"
)

// TestRun runs two waves from end to end.
func TestRun(t *testing.T) {
	s := newSite(t, 5, quickPlan)
	run := s.create(s.rollout(fleet.WaveInfo{Name: "canary", Parallel: 1, Clusters: 1}, fleet.WaveInfo{Name: "rest", Parallel: 4, Clusters: 4}))
	d := s.drive(run)
	x := d.end(3 * time.Minute)
	require.Equal(t, fleet.Succeeded, x.State)
	for _, name := range s.names {
		s.deployed(name)
		require.NotEmpty(t, d.inner[name], "the events of the cluster's own run")
	}
	// Whoever looks later sees the same.
	later := s.drive(run).end(time.Minute)
	require.Equal(t, x.Counts(), later.Counts())
	for i, w := range x.Waves {
		require.Equal(t, w.State, later.Waves[i].State)
	}
	for i, c := range x.Clusters {
		require.Equal(t, c.Result, later.Clusters[i].Result)
		require.Equal(t, c.Started.Unix(), later.Clusters[i].Started.Unix())
	}
	// What is kept does when all Jobs and pods are gone.
	require.NoError(t, s.client.BatchV1().Jobs(s.ns).DeleteCollection(t.Context(), background, selecting(run)))
	require.Equal(t, x.Counts(), s.drive(run).end(time.Minute).Counts())
}
