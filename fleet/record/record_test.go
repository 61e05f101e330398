package record_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/record"
	"github.com/kplan-dev/kplan/ledger"
	"github.com/kplan-dev/kplan/runner"
)

func begin(t *testing.T, dir string) (record.Folder, *record.Run) {
	t.Helper()
	r := &fleet.Rollout{Version: fleet.RolloutVersion, Fleet: "edge", Plan: "eso", Engine: "local", Waves: []fleet.WaveInfo{{Name: "all", Parallel: 1, Clusters: 1}}, Clusters: []fleet.Cluster{{Name: "prod/east", Wave: "all"}}}
	r.Seal()
	f := record.FolderOf(dir)
	run, err := f.Begin(ledger.NewRunID(), r, record.Inputs{Plan: "/plan.yaml", Files: map[string]string{"plan.yaml": "0"}})
	require.NoError(t, err)
	return f, run
}

func fleetEvent(seq int, e fleet.Event) fleet.Event {
	e.Seq, e.Time = seq, time.Unix(int64(seq), 0).UTC()
	return e
}

// first is the first event of a run.
func first(r *record.Run) fleet.Event {
	return fleetEvent(1, fleet.Event{
		Type: fleet.TypeFleet, Version: fleet.EventVersion, Fleet: "edge", Digest: r.Rollout.Digest, Waves: r.Rollout.Waves, Clusters: []fleet.ClusterInfo{{Name: "prod/east", Wave: "all"}},
	})
}

// What was written when the process was killed is there; half a line is not.
func TestJournalAfterAKill(t *testing.T) {
	f, run := begin(t, t.TempDir())
	j, err := run.Journal(func(fleet.Event) { t.Error("a new run has no events") })
	require.NoError(t, err)
	j.Write(first(run))
	j.Write(fleetEvent(2, fleet.Event{Type: fleet.TypeCluster, Cluster: "prod/east", State: fleet.Running, Attempt: 1}))
	require.NoError(t, j.Close())
	path := filepath.Join(run.Dir, "events.jsonl")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(whole, `{"seq":3,"type":"clu`...), 0o600))

	list, err := f.List("edge")
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, fleet.Running, list[0].State)
	require.True(t, list[0].Unfinished())
	again, err := f.Open(run.ID)
	require.NoError(t, err)
	require.Equal(t, run.Rollout, again.Rollout)
	require.Equal(t, run.Inputs, again.Inputs)
	seq := 0
	j, err = again.Journal(func(e fleet.Event) { seq = e.Seq })
	require.NoError(t, err)
	require.Equal(t, 2, seq)
	j.Write(fleetEvent(3, fleet.Event{Type: fleet.TypeDone, RunState: fleet.Succeeded, Counts: map[fleet.State]int{fleet.Succeeded: 1}}))
	require.NoError(t, j.Close())

	events, err := again.Events()
	require.NoError(t, err)
	require.Len(t, events, 3)
	list, err = f.List("edge")
	require.NoError(t, err)
	require.False(t, list[0].Unfinished())
	list, err = f.List("other")
	require.NoError(t, err)
	require.Empty(t, list)
}

// A rollout that somebody has changed is none.
func TestRolloutThatWasChanged(t *testing.T) {
	f, run := begin(t, t.TempDir())
	path := filepath.Join(run.Dir, "rollout.json")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append([]byte(`{"plan":"other",`), text[1:]...), 0o600))
	_, err = f.Open(run.ID)
	require.NoError(t, err, "the later of two fields counts")
	require.NoError(t, os.WriteFile(path, []byte(`{"version":1,"plan":"other","digest":"`+run.Rollout.Digest+`"}`), 0o600))
	_, err = f.Open(run.ID)
	require.ErrorContains(t, err, "it does not have its digest any more")
	_, err = f.Open("../../etc")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Orders of several processes, or goroutines, are all kept.
func TestChange(t *testing.T) {
	_, run := begin(t, t.TempDir())
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			_, err := run.Change(func(c *fleet.Control) { c.Approve(fmt.Sprint(i)) })
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	c, err := run.Control()
	require.NoError(t, err)
	require.Len(t, c.Approved, 20)
}

// One process at a time runs a fleet.
func TestLock(t *testing.T) {
	f := record.FolderOf(t.TempDir())
	require.Nil(t, f.Active("edge"))
	l, err := f.Lock("edge", record.Holder{Run: "r1", By: "me@here", PID: 7})
	require.NoError(t, err)
	require.Equal(t, "r1", f.Active("edge").Run)
	_, err = f.Lock("edge", record.Holder{Run: "r2"})
	held := (*record.HeldError)(nil)
	require.ErrorAs(t, err, &held)
	require.ErrorContains(t, err, "fleet edge is being run by another: run r1 of me@here (pid 7)")
	other, err := f.Lock("prod/west", record.Holder{Run: "r3"})
	require.NoError(t, err)
	other.Release()
	l.Release()
	require.Nil(t, f.Active("edge"))
}

// A cluster's events are in a file of its own, and those of an attempt before stay.
func TestClusterFiles(t *testing.T) {
	_, run := begin(t, t.TempDir())
	for attempt := 1; attempt <= 2; attempt++ {
		c, err := run.Cluster("prod/east", attempt)
		require.NoError(t, err)
		c.Observe(runner.Event{Seq: 1, Time: time.Unix(1, 0), Type: runner.TypePlan, Version: runner.EventVersion, Run: fmt.Sprint(attempt)})
		require.NoError(t, c.Close())
	}
	events, err := ledger.ReadEvents(run.ClusterPath("prod/east"))
	require.NoError(t, err)
	require.Equal(t, "2", events[0].Run)
	events, err = ledger.ReadEvents(run.ClusterPath("prod/east") + ".1")
	require.NoError(t, err)
	require.Equal(t, "1", events[0].Run)
	for _, name := range []string{"prod/east", "a%2Fb", "east.1", "ä b"} {
		require.Equal(t, name, record.ClusterName(record.FileName(name)))
		require.NotContains(t, record.FileName(name), "/")
	}
}

// Who follows a run sees what another process writes, until nobody writes any more.
func TestFollow(t *testing.T) {
	_, run := begin(t, t.TempDir())
	j, err := run.Journal(func(fleet.Event) {})
	require.NoError(t, err)
	j.Write(first(run))
	seen := make(chan fleet.Event, 10)
	var writer sync.WaitGroup
	writer.Go(func() {
		<-seen
		j.Write(fleetEvent(2, fleet.Event{Type: fleet.TypeDone, RunState: fleet.Failed}))
	})
	x, err := run.Follow(t.Context(), func(e fleet.Event) { seen <- e }, func() bool { return true })
	require.NoError(t, err)
	require.Equal(t, fleet.Failed, x.State)
	writer.Wait()
	require.NoError(t, j.Close())
}
